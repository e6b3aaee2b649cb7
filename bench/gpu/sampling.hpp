// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace farcall::gpu {

using stopwatch_clock = std::chrono::steady_clock;

[[nodiscard]] inline double ns_between(stopwatch_clock::time_point a,
                                       stopwatch_clock::time_point b) {
  return std::chrono::duration<double, std::nano>(b - a).count();
}

/// Returns the number of warm-up calls before so many samples.
[[nodiscard]] constexpr std::size_t warm_up_of(std::size_t samples) {
  return std::min<std::size_t>(samples / 10 + 1, 2000);
}

/// Returns the nanoseconds of each of `count` calls of `what`, after warm-up calls. The clock is
/// read once per call, and that time is part of the sample.
template <class What>
[[nodiscard]] std::vector<double> sample(std::size_t count, What&& what) {
  for (std::size_t i = 0; i < warm_up_of(count); ++i)
    what();
  std::vector<double> samples(count);
  auto before = stopwatch_clock::now();
  for (double& s : samples) {
    what();
    const auto after = stopwatch_clock::now();
    s = ns_between(before, after);
    before = after;
  }
  return samples;
}

} // namespace farcall::gpu
