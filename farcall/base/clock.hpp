// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

// Include only the parts of <chrono> for durations, clocks and literals. The whole <chrono> of
// libstdc++ includes iostreams, 30,000 lines that every program would compile.
#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#endif

namespace farcall {

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

inline constexpr time_point no_deadline = time_point::max();
/// Deadline of an operation that must not wait, not even for a moment. If it would have to wait, it
/// throws timeout instead.
inline constexpr time_point without_waiting = time_point::min();

/// A duration of any std::chrono type as a time limit. A duration that is too long for nanoseconds,
/// such as `std::chrono::hours::max()`, means no limit.
class time_limit {
 public:
  /// Converts a duration to a time limit. Never fails.
  template <class Rep, class Period>
  constexpr time_limit(const std::chrono::duration<Rep, Period>& duration) noexcept
      : length_(in_nanoseconds(duration)) {}
  /// Returns the duration in nanoseconds, limited to the range of nanoseconds.
  [[nodiscard]] constexpr std::chrono::nanoseconds length() const noexcept { return length_; }

 private:
  template <class Rep, class Period>
  static constexpr std::chrono::nanoseconds
  in_nanoseconds(const std::chrono::duration<Rep, Period>& duration) noexcept {
    using std::chrono::nanoseconds;
    // Compare in double, which cannot overflow, to see if the conversion would overflow.
    const double about = std::chrono::duration<double, std::nano>(duration).count();
    if (about <= -9.2e18) return nanoseconds::min();
    if (about < 9.2e18) return std::chrono::duration_cast<nanoseconds>(duration);
    return nanoseconds::max();
  }

  std::chrono::nanoseconds length_;
};

/// Returns the time point that is `limit` from now; no_deadline if the clock cannot represent this
/// time point.
[[nodiscard]] inline time_point deadline_after(time_limit limit) noexcept {
  const time_point now = clock::now();
  return limit.length() < no_deadline - now ? now + limit.length() : no_deadline;
}

/// Tells the CPU that this is a spin loop, so that the CPU saves power and polls the cache line
/// less often.
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
