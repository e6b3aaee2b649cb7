// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>

#include <cstdint>

/// The clock of events. This clock is the processor's counter if the counter can be read in a few
/// nanoseconds and is the same on all cores. Otherwise it is the steady clock.
namespace farcall::trace {

enum class tick_source : std::uint8_t {
  steady_clock,      ///< nanoseconds
  processor_counter, ///< the time stamp counter, or the equivalent of other processors
};

/// Returns the source of the ticks, which is constant in a process.
[[nodiscard]] tick_source find_tick_source() noexcept;

[[nodiscard]] inline std::uint64_t processor_ticks() noexcept {
#if defined(__x86_64__)
  // Do not use the instruction rdtscp, which takes twice as long. With rdtsc, the processor may
  // read the counter before it has executed earlier loads.
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

[[nodiscard]] inline std::uint64_t ticks(tick_source source) noexcept {
  if (source == tick_source::processor_counter) [[likely]]
    return processor_ticks();
  return static_cast<std::uint64_t>(clock::now().time_since_epoch().count());
}

} // namespace farcall::trace
