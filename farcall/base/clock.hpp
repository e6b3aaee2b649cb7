#pragma once

#include <farcall/base/language.hpp>

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

/// How long something may take: any duration of std::chrono. One that is too long to be counted in
/// nanoseconds, as `std::chrono::hours::max()`, is no limit.
class time_limit {
 public:
  /// Never fails.
  template <class Rep, class Period>
  constexpr time_limit(const std::chrono::duration<Rep, Period>& duration) noexcept
      : length_(in_nanoseconds(duration)) {}
  /// In nanoseconds, at most as many as they can count.
  [[nodiscard]] constexpr std::chrono::nanoseconds length() const noexcept { return length_; }

 private:
  template <class Rep, class Period>
  static constexpr std::chrono::nanoseconds
  in_nanoseconds(const std::chrono::duration<Rep, Period>& duration) noexcept {
    using std::chrono::nanoseconds;
    // Does not overflow, and says which conversions would.
    const double about = std::chrono::duration<double, std::nano>(duration).count();
    if (about <= -9.2e18) return nanoseconds::min();
    if (about < 9.2e18) return std::chrono::duration_cast<nanoseconds>(duration);
    return nanoseconds::max();
  }

  std::chrono::nanoseconds length_;
};

/// The point in time that is so far from now; no_deadline when the clock does not reach it.
[[nodiscard]] inline time_point deadline_after(time_limit limit) noexcept {
  const time_point now = clock::now();
  return limit.length() < no_deadline - now ? now + limit.length() : no_deadline;
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
