// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the program with a message unless `what` holds.
#define CHECK(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                      \
      std::_Exit(1);                                                                               \
    }                                                                                              \
  } while (false)
