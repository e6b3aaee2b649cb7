#pragma once

#include <sanitizer/common_interface_defs.h>

namespace farcall::test {

/// Everything takes ten times as long, and tests do less of it.
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

/// The child of a process with threads may have no threads of its own.
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

/// ThreadSanitizer asks another program for the names of functions, from the first race on, which
/// may be a suppressed one. For tests that count descriptors and children, before they do.
inline void start_symbolizer() {
  if constexpr (under_thread_sanitizer) {
    char name[64];
    __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name, sizeof name);
  }
}

} // namespace farcall::test
