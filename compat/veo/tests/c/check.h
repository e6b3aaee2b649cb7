/* SPDX-License-Identifier: Apache-2.0 */

/* Reports of failures in the programs in C. */
#ifndef COMPAT_VEO_TESTS_C_CHECK_H
#define COMPAT_VEO_TESTS_C_CHECK_H

#include <farcall_veo.h>

#include <stdio.h>

static int failures = 0;

/* Checks a condition, and continues after a failure: main() returns `failures != 0`. */
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,                  \
              farcall_veo_last_error());                                                           \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

/* Checks a condition, and ends the program after a failure. */
#define NEED(condition)                                                                            \
  do {                                                                                             \
    CHECK(condition);                                                                              \
    if (failures != 0) return 1;                                                                   \
  } while (0)

#endif
