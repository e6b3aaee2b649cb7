#pragma once

#include <bench/report/statistics.hpp>
#include <tools/common/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace farcall::bench {

using tool::summarize;
using tool::summary;

/// What other figures are to a figure.
enum class row_kind {
  other,
  call,   ///< the floor and launches say something about it
  floor,  ///< the shortest of these is the floor
  launch, ///< the shortest of these is the best launch
  note,   ///< no figure: `what` says what could not be measured, and why
};

/// One measured figure.
struct row {
  std::string group = {}; ///< as begun; the report knows
  std::string what;
  std::string unit = {}; ///< "ns", "calls/s", "GB/s"
  summary value = {};
  row_kind kind = row_kind::other;
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
  /// Returns it; valid until the next one. Saves it at once, since what follows may not end.
  const row& add(row r);
  /// The same for nanoseconds of calls, for other durations, and for calls per second.
  const row& add_call(const std::string& what, std::vector<double> ns,
                      row_kind kind = row_kind::call) {
    return add({.what = what, .unit = "ns", .value = summarize(std::move(ns)), .kind = kind});
  }
  const row& add_duration(const std::string& what, std::vector<double> ns) {
    return add({.what = what, .unit = "ns", .value = summarize(std::move(ns))});
  }
  const row& add_rate(const std::string& what, std::vector<double> calls_per_second) {
    return add({.what = what, .unit = "calls/s", .value = summarize(std::move(calls_per_second))});
  }
  /// What could not be measured, and why.
  void add_note(const std::string& text);

  /// Null while there is none.
  [[nodiscard]] const row* floor() const { return shortest(row_kind::floor); }
  [[nodiscard]] const row* best_launch() const { return shortest(row_kind::launch); }
  [[nodiscard]] const row* find(const std::string& what) const;

  /// Takes the rows that csv() of another process has written, before its own. Throws
  /// std::runtime_error for what is no such text.
  void read_csv(const std::string& text);

  /// Prints all of it, with the floor and the best launch of the whole.
  void print() const;
  /// Writes the files anew. Throws std::runtime_error when one cannot be written.
  void save() const;

  [[nodiscard]] tool::json document() const;
  [[nodiscard]] std::string csv() const;

 private:
  [[nodiscard]] const row* shortest(row_kind kind) const;
  [[nodiscard]] double to_floor(const row& r) const;
  [[nodiscard]] double to_launch(const row& r) const;
  void print(const row& r) const;

  std::string json_file_;
  std::string csv_file_;
  std::string group_;
  std::vector<std::pair<std::string, std::string>> circumstances_;
  std::vector<row> rows_;
};

} // namespace farcall::bench
