// SPDX-License-Identifier: Apache-2.0

// Rates of calls, from one thread of the host and from several.

#include "session.hpp"

#include <bench/gpu/functions.hpp>
#include <tools/common/pinning.hpp>

#include <algorithm>
#include <barrier>
#include <stdexcept>
#include <string>
#include <thread>

namespace farcall::bench {
namespace {

/// Makes calls, as many at a time as there are futures.
void make_calls(const node& device, std::vector<future<std::uint64_t>>& window, std::size_t calls) {
  gpu::block<64> b{};
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < calls; ++i) {
    future<std::uint64_t>& place = window[at];
    if (place.valid()) sum += place.get();
    b.words[0] = static_cast<std::uint32_t>(i);
    // The cast: CUDA's compiler warns that the assignment's result is discarded.
    (void)(place = async(device, pure_fn<gpu::sum_of>, b));
    if (++at == window.size()) at = 0;
  }
  for (future<std::uint64_t>& place : window) {
    if (place.valid()) sum += place.get();
  }
  if (sum != std::uint64_t{calls} * (calls - 1) / 2)
    throw std::runtime_error("the results of many calls do not add up");
}

void measure_windows(session& s) {
  const watched_job j = s.start(1);
  const node device = j.device();
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  for (const std::size_t depth : {1U, 16U, 64U, 256U}) {
    std::vector<future<std::uint64_t>> window(depth);
    const std::size_t calls = std::max<std::size_t>(1000, 16 * depth);
    make_calls(device, window, calls);
    std::vector<double> rates;
    s.watch.expect("one thread, window " + std::to_string(depth));
    for (std::size_t i = 0; i < s.asked.choose(200, 30); ++i) {
      s.watch.tick();
      const auto begun = gpu::stopwatch_clock::now();
      make_calls(device, window, calls);
      rates.push_back(static_cast<double>(calls) * 1e9 /
                      gpu::ns_between(begun, gpu::stopwatch_clock::now()));
    }
    s.out.add_rate("one thread, window " + std::to_string(depth), std::move(rates));
  }
}

/// Measures with as many threads as workers; lanes are assigned to workers in turn.
void measure_threads(session& s, std::size_t threads) {
  constexpr std::size_t depth = 256;
  constexpr std::size_t calls = 4 * depth;
  const std::size_t rounds = s.asked.choose(200, 30);
  const watched_job j = s.start(threads);
  const node device = j.device();
  std::vector<double> rates(rounds);
  gpu::stopwatch_clock::time_point begun;
  bool is_first = true;
  std::size_t round = 0;
  // Called at the start of each round, and at its end.
  const auto turn = [&]() noexcept {
    const auto now = gpu::stopwatch_clock::now();
    if (is_first) {
      begun = now;
    } else {
      s.watch.tick();
      rates[round++] = static_cast<double>(threads * calls) * 1e9 / gpu::ns_between(begun, now);
    }
    is_first = !is_first;
  };
  s.watch.expect(std::to_string(threads) + " threads and workers");
  std::barrier meeting(static_cast<std::ptrdiff_t>(threads), turn);
  std::vector<std::string> failures(threads);
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      try {
        if (s.is_gpu()) tool::pin_this_thread(s.cpus[t]);
        std::vector<future<std::uint64_t>> window(depth);
        sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
        make_calls(device, window, calls);
        for (std::size_t r = 0; r < rounds; ++r) {
          meeting.arrive_and_wait();
          make_calls(device, window, calls);
          meeting.arrive_and_wait();
        }
      } catch (const std::exception& e) {
        failures[t] = e.what();
        meeting.arrive_and_drop();
      }
    });
  }
  for (std::thread& t : all)
    t.join();
  for (const std::string& why : failures) {
    if (!why.empty()) throw std::runtime_error(why);
  }
  const std::string n = std::to_string(threads);
  s.out.add_rate(n + (threads == 1 ? " thread, " : " threads, ") + n +
                     (threads == 1 ? " worker, window 256" : " workers, window 256"),
                 std::move(rates));
}

} // namespace

void measure_rates(session& s) {
  s.out.begin("rates");
  measure_windows(s);
  for (const std::size_t threads : {1U, 2U, 4U, 8U}) {
    // Emulated workers need processors, too.
    if ((s.is_gpu() ? threads : 2 * threads) > s.cpus.size()) {
      s.out.add_note("no more threads: this process may use " + std::to_string(s.cpus.size()) +
                     " processors");
      break;
    }
    measure_threads(s, threads);
  }
}

} // namespace farcall::bench
