// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sanitizer/common_interface_defs.h>

namespace farcall::test {

/// True under AddressSanitizer or ThreadSanitizer. Code takes up to ten times as long, so tests run
/// fewer rounds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool under_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool under_sanitizer = true;
#else
inline constexpr bool under_sanitizer = false;
#endif
#else
inline constexpr bool under_sanitizer = false;
#endif

/// True under ThreadSanitizer, where the forked child of a process with threads may start none.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Starts the program that tells ThreadSanitizer the names of functions. Otherwise it would start
/// at the first race, even a suppressed one. Tests that count descriptors or children call this
/// function first.
inline void start_symbolizer() {
  if constexpr (under_thread_sanitizer) {
    char name[64];
    __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name, sizeof name);
  }
}

} // namespace farcall::test
