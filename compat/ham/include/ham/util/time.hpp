// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <numeric>
#include <ratio>
#include <sstream>
#include <string>
#include <vector>

namespace ham::util::time {

using rep = double;
using period = std::nano;
using duration = std::chrono::duration<rep, period>;
using clock = std::chrono::high_resolution_clock;
using time_point = clock::time_point;

/// Timer that measures the time since it was constructed.
class timer {
 public:
  /// Returns nanoseconds.
  [[nodiscard]] rep elapsed() const {
    return std::chrono::duration_cast<duration>(steady::now() - begin_).count();
  }

 private:
  using steady = std::chrono::steady_clock;
  steady::time_point begin_ = steady::now();
};

/// Collection of measured times and their statistics. A statistic is 0 if there are too few times.
class statistics {
 public:
  /// Reserves memory for `expected` times. The first `warmup` times that are added are ignored.
  explicit statistics(std::size_t expected = 0, std::size_t warmup = 0) : warmup_(warmup) {
    times_.reserve(expected);
  }

  void add(const timer& t) { add(t.elapsed()); }
  /// Adds a measured time in nanoseconds.
  void add(rep time) {
    if (warmup_ > 0) {
      --warmup_;
    } else {
      times_.push_back(time);
    }
  }

  [[nodiscard]] std::size_t count() const { return times_.size(); }
  [[nodiscard]] duration sum() const {
    return duration(std::accumulate(times_.begin(), times_.end(), rep{0}));
  }
  [[nodiscard]] duration average() const { return quotient(sum().count(), count()); }
  [[nodiscard]] duration min() const {
    return duration(times_.empty() ? 0 : *std::min_element(times_.begin(), times_.end()));
  }
  [[nodiscard]] duration max() const {
    return duration(times_.empty() ? 0 : *std::max_element(times_.begin(), times_.end()));
  }
  [[nodiscard]] duration median() const {
    if (times_.empty()) return duration(0);
    std::vector<rep> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t upper = sorted.size() / 2;
    const std::size_t lower = (sorted.size() - 1) / 2;
    return duration((sorted[lower] + sorted[upper]) / 2);
  }
  /// Returns the sample variance in ns². The type is a duration only for compatibility with HAM.
  [[nodiscard]] duration variance() const {
    const rep mean = average().count();
    const rep squares =
        std::accumulate(times_.begin(), times_.end(), rep{0},
                        [&](rep so_far, rep t) { return so_far + (t - mean) * (t - mean); });
    return quotient(squares, count() > 1 ? count() - 1 : 0);
  }
  /// Returns the standard error of the average of the times.
  [[nodiscard]] duration std_error() const {
    return duration(std::sqrt(quotient(variance().count(), count()).count()));
  }
  /// Returns the standard error as a fraction of the average.
  [[nodiscard]] duration relative_std_error() const { return part_of_average(std_error()); }
  /// Returns half the width of the 95 % confidence interval of the average.
  [[nodiscard]] duration conf95_error() const { return 1.96 * std_error(); }
  [[nodiscard]] duration relative_conf95_error() const { return part_of_average(conf95_error()); }

  /// Returns the names of the columns that string() returns, separated by tabs.
  [[nodiscard]] static std::string header_string() {
    return "average\tmedian\tmin\tmax\tvariance\tstd_error\trelative_std_error\tconf95_error\t"
           "relative_conf95_error\tcount";
  }
  /// Returns the statistics as one line, with tabs between the columns.
  [[nodiscard]] std::string string() const {
    std::ostringstream out;
    out << std::scientific;
    for (const duration column : {average(), median(), min(), max(), variance(), std_error(),
                                  relative_std_error(), conf95_error(), relative_conf95_error()})
      out << column.count() << '\t';
    out << count();
    return out.str();
  }
  /// Writes all times to a file in the order of their measurement, one per line.
  void to_file(const std::string& name) const {
    std::ofstream out(name);
    out << std::scientific;
    for (const rep time : times_)
      out << time << '\n';
  }

 private:
  static duration quotient(rep sum, std::size_t parts) {
    return duration(parts == 0 ? 0 : sum / static_cast<rep>(parts));
  }
  [[nodiscard]] duration part_of_average(duration part) const {
    return duration(average().count() == 0 ? 0 : part / average());
  }

  std::vector<rep> times_;
  std::size_t warmup_;
};

} // namespace ham::util::time
