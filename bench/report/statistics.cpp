// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace farcall::tool {

double percentile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double position = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + (sorted[above] - sorted[below]) * fraction;
}

summary summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  summary result;
  result.p1 = percentile(samples, 0.01);
  result.p50 = percentile(samples, 0.50);
  result.p99 = percentile(samples, 0.99);
  result.lowest = percentile(samples, 0.0);
  result.highest = percentile(samples, 1.0);
  result.samples = samples.size();
  return result;
}

double rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

json percentiles_json(const summary& s, int decimals) {
  return {{"p1", rounded(s.p1, decimals)},
          {"p50", rounded(s.p50, decimals)},
          {"p99", rounded(s.p99, decimals)}};
}

} // namespace farcall::tool
