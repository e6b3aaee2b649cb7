// SPDX-License-Identifier: Apache-2.0

// Thousands of small dense systems: shows when calls of a GPU's resident workers pay off.
//
//   example-30-gpu-batched                                   a device that is emulated by threads
//   example-30-gpu-batched-cuda --farcall-targets=cuda:0     a GPU
//   … --count=N --lanes=N                                    systems of each size; lanes to use
#include "problem.hpp"
#include "solve.hpp"
#include "table.hpp"

#include <farcall/farcall.hpp>

#include <chrono>
#include <cstdlib>
#include <string_view>

namespace fc = farcall;

int main(int argc, char** argv) {
  std::size_t count = 4096;
  std::size_t lane_count = 4;
  for (const std::string_view word : std::vector<std::string_view>(argv + 1, argv + argc)) {
    if (word.starts_with("--count=")) count = std::strtoul(word.data() + 8, nullptr, 10);
    if (word.starts_with("--lanes=")) lane_count = std::strtoul(word.data() + 8, nullptr, 10);
  }
  const fc::job job{argc, argv, fc::job_options{.targets = "cuda-emulated:0"}};
  const fc::node gpu = job.targets().front();
  std::vector<fc::lane> lanes; // each has a worker for its calls, and a stream for its launches
  while (lanes.size() < std::max<std::size_t>(lane_count, 1))
    lanes.emplace_back(gpu);

  bool is_right = count > 0;
  batched::print_head();
  for (const unsigned n : {8U, 16U, 32U}) {
    const batched::problem p(n, count);
    const auto there = gpu.allocate<double>(p.systems.size());
    const auto system = [&](std::size_t i) { return there.subspan(i * p.length(), p.length()); };
    const auto call = [&](std::size_t i, const fc::lane& l) {
      return fc::async(l, fc::team_fn<batched::solve>, system(i), n);
    };
    const auto launch = [&](std::size_t i, const fc::lane& l) {
      return fc::async(l, fc::grid{.blocks = 1, .threads = 32}, fc::team_fn<batched::solve>,
                       system(i), n);
    };
    // Like a task that needs the previous task's result.
    const auto one_by_one = [&](auto start) {
      return [&, start](std::size_t first) {
        for (std::size_t i = 0; i < first; ++i)
          start(i, lanes[0]).get();
      };
    };
    const auto at_once = [&](auto start) {
      return [&, start](std::size_t first) {
        std::vector<fc::future<void>> all;
        for (std::size_t i = 0; i < first; ++i)
          all.push_back(start(i, lanes[i % lanes.size()]));
        for (fc::future<void>& f : all)
          f.get();
      };
    };
    const auto in_one = [&](std::size_t first) {
      const fc::grid blocks{.blocks = static_cast<std::uint32_t>(first), .threads = 32};
      fc::sync(lanes[0], blocks, fc::team_fn<batched::solve_all>, there.span(), n);
    };
    is_right &= measure(p, there, "calls, one after the other", one_by_one(call));
    is_right &= measure(p, there, "launches, one after the other", one_by_one(launch));
    is_right &= measure(p, there, "calls, all at once", at_once(call));
    is_right &= measure(p, there, "launches, all at once", at_once(launch));
    is_right &= measure(p, there, "one launch for all", in_one);

    std::vector<double> here = p.systems;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i)
      batched::eliminate(here.data() + i * p.length(), n);
    const auto end = std::chrono::steady_clock::now();
    is_right &= print_row(p, "this processor, one thread", end - start, here);
  }
  return is_right ? 0 : 1;
}
