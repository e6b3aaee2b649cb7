// SPDX-License-Identifier: Apache-2.0
#include "rates.hpp"

#include <bench/runner/functions.hpp>
#include <bench/runner/stopwatch.hpp>

#include <atomic>
#include <exception>
#include <thread>

namespace farcall::tool {

namespace {

/// Counter that one thread writes and the sampling thread reads; on its own cache line, to avoid
/// false sharing.
struct alignas(128) counter {
  std::atomic<std::uint64_t> calls{0};
  void add(std::uint64_t n) {
    calls.store(calls.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

void call_until(const std::atomic<bool>& stop, const std::vector<node>& targets, std::size_t first,
                call_kind kind, counter& count) {
  std::size_t at = first % targets.size();
  const auto next = [&]() -> const node& {
    at = at + 1 == targets.size() ? 0 : at + 1;
    return targets[at];
  };
  std::vector<future<double>> under_way(kind == call_kind::pipelined ? rate_window : 0);
  while (!stop.load(std::memory_order_relaxed)) {
    if (kind == call_kind::synchronous) {
      (void)sync(next(), offloaded::add, 1.0, 2.0);
      count.add(1);
    } else {
      for (future<double>& f : under_way) {
        if (f.valid()) (void)f.get();
        f = async(next(), offloaded::add, 1.0, 2.0);
      }
      count.add(rate_window);
    }
  }
}

} // namespace

std::vector<double> measure_rate(const std::vector<node>& targets, std::size_t threads,
                                 call_kind kind, std::size_t slices,
                                 std::chrono::milliseconds slice) {
  std::atomic<bool> stop{false};
  std::vector<counter> counters(threads);
  std::vector<std::exception_ptr> failures(threads);
  std::vector<std::thread> callers;
  callers.reserve(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    callers.emplace_back([&, t] {
      try {
        call_until(stop, targets, t, kind, counters[t]);
      } catch (...) {
        failures[t] = std::current_exception();
      }
    });
  }
  const auto total = [&] {
    std::uint64_t sum = 0;
    for (const counter& c : counters)
      sum += c.calls.load(std::memory_order_relaxed);
    return sum;
  };
  std::this_thread::sleep_for(2 * slice); // until lanes are open and memory is touched
  std::vector<double> samples;
  std::uint64_t before = total();
  for (std::size_t i = 0; i < slices; ++i) {
    const stopwatch watch;
    std::this_thread::sleep_for(slice);
    const std::uint64_t now = total();
    samples.push_back(static_cast<double>(now - before) / (watch.nanoseconds() / 1e9));
    before = now;
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& caller : callers)
    caller.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return samples;
}

} // namespace farcall::tool
