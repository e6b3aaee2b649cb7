/* SPDX-License-Identifier: Apache-2.0 */

/* Reports conditions that do not hold; main() ends with `return failures();`. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int failed_checks;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);               \
      ++failed_checks;                                                                             \
    }                                                                                              \
  } while (0)

static int failures(void) { return failed_checks == 0 ? 0 : 1; }

#endif
