#pragma once

#include <tools/common/json.hpp>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace farcall::tool {

/// What is reported of a set of raw samples. A mean is left out on purpose: one interrupted batch
/// moves it, and it hides what the slow calls cost.
struct summary {
  double p1 = 0;
  double p50 = 0;
  double p99 = 0;
  double lowest = 0;
  double highest = 0;
  std::size_t samples = 0;
};

/// The value below which `share` (0 to 1) of the sorted samples lie, interpolated between the two
/// nearest samples. An empty range has no percentile: not-a-number.
[[nodiscard]] double percentile(std::span<const double> sorted, double share);

/// Sorts a copy of the samples and reads the percentiles from it. No samples give a summary of
/// not-a-numbers.
[[nodiscard]] summary summarize(std::vector<double> samples);

/// The same summary in another unit, for example mebibytes per second out of nanoseconds: `convert`
/// must be monotonic; when it turns the order round, the percentiles change places.
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

/// {"p1":…,"p50":…,"p99":…}, rounded to hundredths; `decimals` for other units than nanoseconds.
[[nodiscard]] json percentiles_json(const summary& s, int decimals = 2);

} // namespace farcall::tool
