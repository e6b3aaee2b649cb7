/// How the programs in C say what went wrong.
#ifndef TESTS_C_INTERFACE_CHECK_H
#define TESTS_C_INTERFACE_CHECK_H

#include <farcall/farcall.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

/// Goes on after a failure: main() returns `failures != 0`.
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s, %s)\n", __FILE__, __LINE__, #condition,  \
              fc_status_name(fc_error_status()), fc_error_text());                                 \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

/// The expression has that status, and the last error that text in it.
#define CHECK_FAILS(status, text, expression)                                                      \
  do {                                                                                             \
    CHECK((expression) == (status));                                                               \
    CHECK(fc_error_status() == (status));                                                          \
    CHECK(strstr(fc_error_text(), (text)) != NULL);                                                \
  } while (0)

/// What nothing can follow.
#define NEED(condition)                                                                            \
  do {                                                                                             \
    CHECK(condition);                                                                              \
    if (failures != 0) exit(1);                                                                    \
  } while (0)

/// How long a test waits for what should happen at once, before it gives up.
#define LIMIT_NS (60 * INT64_C(1000000000))

#endif
