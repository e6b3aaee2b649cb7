// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/json.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace farcall::tool {

/// Percentiles of a set of samples. There is no mean on purpose: a single interrupted batch moves
/// it, and it hides the cost of slow calls.
struct summary {
  double p1 = 0;
  double p50 = 0;
  double p99 = 0;
  double lowest = 0;
  double highest = 0;
  std::size_t samples = 0;
};

/// Returns the value below which `share` (0 to 1) of the sorted samples are, interpolated between
/// the two nearest samples; NaN if there are none.
[[nodiscard]] double percentile(std::span<const double> sorted, double share);

/// Sorts a copy of the samples and returns their percentiles; NaNs if there are none.
[[nodiscard]] summary summarize(std::vector<double> samples);

/// Converts a summary to another unit, for example from nanoseconds to mebibytes per second.
/// `convert` must be monotonic; if it reverses the order, p1 and p99 are swapped.
template <class Convert>
[[nodiscard]] summary converted(const summary& s, Convert convert) {
  summary result{convert(s.p1),     convert(s.p50),     convert(s.p99),
                 convert(s.lowest), convert(s.highest), s.samples};
  if (result.p1 > result.p99) {
    std::swap(result.p1, result.p99);
    std::swap(result.lowest, result.highest);
  }
  return result;
}

/// Rounds to a number of decimals, so that a document shows no more digits than were measured.
[[nodiscard]] double rounded(double value, int decimals = 2);

/// Returns {"p1":…,"p50":…,"p99":…}, rounded to hundredths (of nanoseconds) or to `decimals`.
[[nodiscard]] json percentiles_json(const summary& s, int decimals = 2);

} // namespace farcall::tool
