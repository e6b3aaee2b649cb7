// SPDX-License-Identifier: Apache-2.0
#include "waking.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/stopwatch.hpp>

#include <farcall/farcall.hpp>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

namespace {

/// Returns options for a job with one target, whose threads spin for that time before they sleep.
job_options spinning_job(core_pair cores, std::size_t spin_us) {
  job_options options = job_of_this_program(shm_target_on(cores.target));
  options.waiting.spin = std::chrono::microseconds{spin_us};
  return options;
}

/// Time in which the other side falls asleep: it polls for some microseconds even if it spins for
/// 0 µs.
constexpr double time_to_sleep_ns = 100'000;
/// Least time of a point of the sweep, so that the processor time is far longer than a tick of it.
constexpr double least_point_ns = 2e8;

/// Computes in place of sleeping, so that the caller's own core does not have to be woken.
void let_other_side_sleep() {
  const stopwatch watch;
  while (watch.nanoseconds() < time_to_sleep_ns) {
  }
}

/// Returns the median time of a call, each timed by itself.
template <class Call>
double median_of(Call call) {
  std::vector<double> samples(wake_ups);
  for (double& sample : samples) {
    let_other_side_sleep();
    const stopwatch watch;
    call();
    sample = watch.nanoseconds();
  }
  return summarize(std::move(samples)).p50;
}

} // namespace

void measure_sleeping_calls(std::vector<comparison>& to, futex_peer& bare, core_pair cores,
                            std::size_t turns) {
  const job j{spinning_job(cores, 0)};
  const node target = j.targets().front();
  using enum futex_peer::caller;
  const auto compare = [&](const char* key, const char* what, const char* without,
                           futex_peer::caller how, const auto& call) {
    comparison c{key, what, without, sleeping_call_goal};
    c.take(measure_by_turns(
        turns, [&] { return median_of(call); },
        [&] { return median_of([&] { bare.round_trips(1, how); }); }));
    to.push_back(std::move(c));
  };
  compare("both_sleep", "sync, empty, both sides sleep", "futex there and back, both sides sleep",
          asleep, [&] { sync(target, offloaded::nothing); });
  compare("target_sleeps", "async, empty, target sleeps, caller polls",
          "futex there, caller spins on a flag", spinning, [&] {
            future<void> reply = async(target, offloaded::nothing);
            while (!reply.test()) {
            }
            reply.get();
          });
}

spin_row measure_spin(std::size_t spin_us, const std::vector<std::size_t>& gaps_us,
                      std::size_t calls, core_pair cores) {
  const job j{spinning_job(cores, spin_us)};
  const node target = j.targets().front();
  const int target_pid = pids_of(j).front();
  spin_row row{spin_us, {}};
  for (const std::size_t gap : gaps_us) {
    for (std::size_t i = 0; i < calls / 10 + 1; ++i)
      sync(target, offloaded::nothing);
    const double target_before = processor_time_ns(target_pid);
    const double host_before = processor_time_ns(getpid());
    const stopwatch whole;
    std::vector<double> samples;
    while (samples.size() < calls || whole.nanoseconds() < least_point_ns) {
      if (gap != 0) std::this_thread::sleep_for(std::chrono::microseconds{gap});
      const stopwatch watch;
      sync(target, offloaded::nothing);
      samples.push_back(watch.nanoseconds());
    }
    const double elapsed = whole.nanoseconds();
    row.points.push_back({gap, summarize(std::move(samples)),
                          100 * (processor_time_ns(target_pid) - target_before) / elapsed,
                          100 * (processor_time_ns(getpid()) - host_before) / elapsed});
  }
  return row;
}

} // namespace farcall::tool
