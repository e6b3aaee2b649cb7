// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/statistics.hpp>
#include <bench/runner/comparison.hpp>
#include <bench/runner/futex_peer.hpp>
#include <tools/common/pinning.hpp>

#include <cstddef>
#include <vector>

/// Costs of calls whose two ends sleep, and of the time for which they spin before they sleep.
namespace farcall::tool {

/// Calls that wake a thread, in a batch: few, since they take a thousand times as long as others.
inline constexpr std::size_t wake_ups = 50;

/// Measures calls to a target that sleeps, beside wake-ups by futex. Before each of both, the
/// caller computes until the other side must be asleep.
void measure_sleeping_calls(std::vector<comparison>& to, futex_peer& bare, core_pair cores,
                            std::size_t turns);

/// Measures calls whose caller sleeps in poll() on job::wait_fd(), beside two threads that wake
/// each other by eventfds. `other_threads` have called once and now sleep.
void measure_wait_fd(std::vector<comparison>& to, core_pair cores, std::size_t turns,
                     std::size_t other_threads);

/// Calls with a gap between them, for one spin time.
struct spin_point {
  std::size_t gap_us = 0;
  summary call_ns;
  double target_percent = 0; ///< processor time of the target, in percent of one core
  double host_percent = 0;
};

struct spin_row {
  std::size_t spin_us = 0;
  std::vector<spin_point> points;
};

/// Measures calls of a thread that sleeps for a gap between two calls.
[[nodiscard]] spin_row measure_spin(std::size_t spin_us, const std::vector<std::size_t>& gaps_us,
                                    std::size_t calls, core_pair cores);

} // namespace farcall::tool
