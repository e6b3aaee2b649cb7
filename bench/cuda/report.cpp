// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <tools/common/table.hpp>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string_view>

namespace farcall::bench {
namespace {

constexpr std::array kinds{"other", "call", "floor", "launch", "note", "circumstance"};

/// report.py fills in the columns between `kind` and `against`.
constexpr std::string_view csv_head =
    "group,what,unit,p1,p50,p99,samples,kind,to_floor,to_best_launch,ratio,against\n";

std::string text_of(double value, const std::string& unit) {
  if (unit == "ns") return tool::format_time(value);
  if (unit == "calls/s") return tool::format_rate(value);
  return tool::format_number(value) + ' ' + unit;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text)
    cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

} // namespace

std::string csv_line(const std::string& group, const row& r) {
  std::array<char, 128> numbers{};
  (void)std::snprintf(numbers.data(), numbers.size(), "%.6g,%.6g,%.6g,%zu", r.value.p1, r.value.p50,
                      r.value.p99, r.value.samples);
  return csv_cell(group) + ',' + csv_cell(r.what) + ',' + r.unit + ',' + numbers.data() + ',' +
         kinds.at(static_cast<std::size_t>(r.kind)) + ",,,," + csv_cell(r.against) + '\n';
}

void report::add_circumstance(const std::string& name, const std::string& value) {
  add({.what = name, .kind = row_kind::circumstance, .against = value});
}

void report::begin(const std::string& group) {
  group_ = group;
  std::printf("\n%-52s %10s %10s %10s\n", group.c_str(), "p1", "p50", "p99");
  (void)std::fflush(stdout);
}

void report::add(const row& r) {
  if (r.kind == row_kind::circumstance) {
    std::printf("%-10s %s\n", r.what.c_str(), r.against.c_str());
  } else if (r.kind == row_kind::note) {
    std::printf("(%s)\n", r.what.c_str());
  } else {
    std::printf("%-52s %10s %10s %10s\n", r.what.c_str(), text_of(r.value.p1, r.unit).c_str(),
                text_of(r.value.p50, r.unit).c_str(), text_of(r.value.p99, r.unit).c_str());
  }
  (void)std::fflush(stdout);
  if (csv_file_.empty()) return;
  std::error_code no_file;
  const bool is_new = std::filesystem::file_size(csv_file_, no_file) == 0 || no_file;
  std::ofstream out(csv_file_, std::ios::app);
  out << (is_new ? csv_head : "") << csv_line(group_, r) << std::flush;
  if (!out) throw std::runtime_error("cannot write " + csv_file_);
}

} // namespace farcall::bench
