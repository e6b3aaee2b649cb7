// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/statistics.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall::bench {

using tool::summarize;
using tool::summary;

/// Role of a figure in comparisons.
enum class row_kind {
  other,
  call,         ///< compared with the floor and with launches
  floor,        ///< the shortest of these is the floor
  launch,       ///< the shortest of these is the best launch
  note,         ///< no figure: `what` says what could not be measured, and why
  circumstance, ///< no figure: `against` is the value of `what`
};

/// One measured figure.
struct row {
  std::string what;
  std::string unit = {}; ///< "ns", "calls/s", "GB/s"
  summary value = {};
  row_kind kind = row_kind::other;
  std::string against = {}; ///< name of the figure that report.py compares it with
};

/// The figures of a run and its conditions: printed at once, and added to a table that report.py
/// reads.
class report {
 public:
  /// Without a name, no table is written.
  explicit report(std::string csv_file) : csv_file_(std::move(csv_file)) {}

  void add_circumstance(const std::string& name, const std::string& value);
  /// Begins a group, to which the next rows belong.
  void begin(const std::string& group);
  /// Writes the row at once, since a later measurement may hang. Throws std::runtime_error if the
  /// file cannot be written.
  void add(const row& r);
  /// Add nanoseconds of calls, other durations, and calls per second.
  void add_call(const std::string& what, std::vector<double> ns, row_kind kind = row_kind::call) {
    add({.what = what, .unit = "ns", .value = summarize(std::move(ns)), .kind = kind});
  }
  void add_duration(const std::string& what, std::vector<double> ns) {
    add_call(what, std::move(ns), row_kind::other);
  }
  void add_rate(const std::string& what, std::vector<double> calls_per_second) {
    add({.what = what, .unit = "calls/s", .value = summarize(std::move(calls_per_second))});
  }
  /// Adds the reason why something could not be measured.
  void add_note(const std::string& text) { add({.what = text, .kind = row_kind::note}); }

 private:
  std::string csv_file_;
  std::string group_;
};

/// Returns a line of the table; `group` is its first cell.
[[nodiscard]] std::string csv_line(const std::string& group, const row& r);

} // namespace farcall::bench
