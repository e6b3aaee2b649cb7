// SPDX-License-Identifier: Apache-2.0

/// Checks for the test programs in C.
#ifndef TESTS_C_INTERFACE_CHECK_H
#define TESTS_C_INTERFACE_CHECK_H

#include <farcall/farcall.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

/// Prints and counts a failure, and goes on: main() returns `failures != 0`.
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s, %s)\n", __FILE__, __LINE__, #condition,  \
              fc_status_name(fc_error_status()), fc_error_text());                                 \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

/// Checks that the expression has this status, and that the last error contains the text.
#define CHECK_FAILS(status, text, expression)                                                      \
  do {                                                                                             \
    CHECK((expression) == (status));                                                               \
    CHECK(fc_error_status() == (status));                                                          \
    CHECK(strstr(fc_error_text(), (text)) != NULL);                                                \
  } while (0)

/// Prints a failure and ends the program, for conditions that later checks need.
#define NEED(condition)                                                                            \
  do {                                                                                             \
    CHECK(condition);                                                                              \
    if (failures != 0) exit(1);                                                                    \
  } while (0)

/// Time after which a wait fails that should end at once.
#define LIMIT_NS (60 * INT64_C(1000000000))

#endif
