// SPDX-License-Identifier: Apache-2.0

// For programs that are built here and run with a C library older than 2.36: std::random_device of
// g++'s library, which is linked in, calls this function of newer ones.

#include <cstdint>

#include <sys/random.h>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
