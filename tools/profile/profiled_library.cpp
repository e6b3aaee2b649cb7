// SPDX-License-Identifier: Apache-2.0
#include <exception>

namespace {

/// A function that is not exported, so only the full symbol table has its name.
[[gnu::noinline]] unsigned long static_work(unsigned long value) {
  asm volatile("" : "+r"(value));
  return value * 6364136223846793005U + 1;
}

} // namespace

/// Function of a library that the profiled program loads and closes again.
extern "C" unsigned long library_work(unsigned long turns) {
  unsigned long value = static_work(turns);
  for (unsigned long i = 0; i < turns; ++i) {
    value = value * 6364136223846793005U + 1;
    asm volatile("" : "+r"(value));
  }
  if (turns == 0) std::terminate(); // a call through the PLT
  return value;
}
