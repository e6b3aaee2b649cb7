#pragma once

#include <bench/report/statistics.hpp>
#include <tools/common/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall::bench {

using tool::summarize;
using tool::summary;

/// One measured figure.
struct row {
  std::string group = {}; ///< as begun; the report knows
  std::string what;
  std::string unit; ///< "ns", "calls/s", "GB/s"
  summary value = {};
  bool is_call = false;     ///< so that the floor and launches say something about it
  double ratio = 0;         ///< of the medians, to what `against` names; 0: none
  std::string against = {}; ///< another figure, in words
};

/// The figures of a run with their circumstances: printed as they come, and kept in files.
class report {
 public:
  /// Empty names: no such file.
  report(std::string json_file, std::string csv_file)
      : json_file_(std::move(json_file)), csv_file_(std::move(csv_file)) {}

  void add_circumstance(const std::string& name, const std::string& value);
  /// The rows that follow belong to it.
  void begin(const std::string& group);
  /// Returns it; valid until the next one.
  const row& add(row r);
  /// The same for nanoseconds of calls, for other durations, and for calls per second.
  const row& add_call(const std::string& what, std::vector<double> ns) {
    return add({.what = what, .unit = "ns", .value = summarize(std::move(ns)), .is_call = true});
  }
  const row& add_duration(const std::string& what, std::vector<double> ns) {
    return add({.what = what, .unit = "ns", .value = summarize(std::move(ns))});
  }
  const row& add_rate(const std::string& what, std::vector<double> calls_per_second) {
    return add({.what = what, .unit = "calls/s", .value = summarize(std::move(calls_per_second))});
  }
  /// What could not be measured, and why.
  void add_note(const std::string& text);

  /// Latencies are compared with it from now on.
  void set_floor(double ns) { floor_ns_ = ns; }
  /// The same with the shortest of the launches, all of which are offered here.
  void offer_launch(double ns) {
    if (launch_ns_ == 0 || ns < launch_ns_) launch_ns_ = ns;
  }
  [[nodiscard]] double floor_ns() const { return floor_ns_; }
  [[nodiscard]] double launch_ns() const { return launch_ns_; }

  /// Null when there is none.
  [[nodiscard]] const row* find(const std::string& what) const;

  /// Writes the files anew, so that they are there even when something later does not end. Throws
  /// std::runtime_error when one cannot be written.
  void save() const;

  [[nodiscard]] tool::json document() const;
  [[nodiscard]] std::string csv() const;

 private:
  [[nodiscard]] double to_floor(const row& r) const;
  [[nodiscard]] double to_launch(const row& r) const;

  std::string json_file_;
  std::string csv_file_;
  std::string group_;
  double floor_ns_ = 0;
  double launch_ns_ = 0;
  std::vector<std::pair<std::string, std::string>> circumstances_;
  std::vector<row> rows_;
  std::vector<std::string> notes_;
};

} // namespace farcall::bench
