#pragma once

// libstdc++'s <chrono> brings iostreams, 30,000 lines that every program would compile. Durations,
// clocks and literals are all that is needed.
#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#endif

namespace farcall {

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

inline constexpr time_point no_deadline = time_point::max();

/// The point in time `duration` from now; no_deadline when that is further than the clock reaches.
[[nodiscard]] inline time_point deadline_after(std::chrono::nanoseconds duration) noexcept {
  const time_point now = clock::now();
  return duration < no_deadline - now ? now + duration : no_deadline;
}

/// Tells the core that this is a spin loop, so that it saves power and leaves the line alone.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#elif defined(__riscv)
  asm volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");
#endif
}

} // namespace farcall
