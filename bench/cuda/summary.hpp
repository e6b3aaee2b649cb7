#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace farcall::bench {

/// What is reported of raw samples. No mean: one interruption moves it.
struct summary {
  double p1 = 0;
  double p50 = 0;
  double p99 = 0;
  std::size_t samples = 0;
};

/// The value below which `share` (0 to 1) of the sorted samples lie, between the two nearest ones.
[[nodiscard]] inline double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

[[nodiscard]] inline summary summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {percentile(samples, 0.01), percentile(samples, 0.50), percentile(samples, 0.99),
          samples.size()};
}

} // namespace farcall::bench
