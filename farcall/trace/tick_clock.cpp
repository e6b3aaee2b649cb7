// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/tick_clock.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace farcall::trace {
namespace {

bool counts_evenly() noexcept {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // Test for an invariant TSC: the counter neither stops nor changes its rate.
  constexpr unsigned is_invariant = 1U << 8;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & is_invariant) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

} // namespace

tick_source find_tick_source() noexcept {
  static const tick_source found =
      counts_evenly() ? tick_source::processor_counter : tick_source::steady_clock;
  return found;
}

} // namespace farcall::trace
