#include "report.hpp"

#include <tools/common/table.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace farcall::bench {
namespace {

template <class... A>
std::string printed(const char* format, A... values) {
  std::array<char, 256> text{};
  (void)std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string number(double value) { return printed("%.6g", value); }

/// With no more digits than were measured.
double six_digits(double value) { return std::strtod(number(value).c_str(), nullptr); }

std::string text_of(double value, const std::string& unit) {
  if (unit == "ns") return tool::format_time(value);
  if (unit == "calls/s") return tool::format_rate(value);
  return tool::format_number(value) + ' ' + unit;
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text)
    cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

std::string csv_ratio(double value) { return value == 0 ? "" : number(value); }

} // namespace

void report::add_circumstance(const std::string& name, const std::string& value) {
  circumstances_.emplace_back(name, value);
  std::printf("%-10s %s\n", name.c_str(), value.c_str());
}

void report::begin(const std::string& group) {
  group_ = group;
  std::printf("\n%-52s %10s %10s %10s %7s %7s\n", group.c_str(), "p1", "p50", "p99", "/floor",
              "/launch");
  (void)std::fflush(stdout);
}

const row& report::add(row r) {
  r.group = group_;
  const auto ratio = [](double value) {
    return value == 0 ? std::string() : printed("%.2f", value);
  };
  std::printf("%-52s %10s %10s %10s %7s %7s", r.what.c_str(), text_of(r.value.p1, r.unit).c_str(),
              text_of(r.value.p50, r.unit).c_str(), text_of(r.value.p99, r.unit).c_str(),
              ratio(to_floor(r)).c_str(), ratio(to_launch(r)).c_str());
  if (r.ratio != 0) std::printf("  %.3f x %s", r.ratio, r.against.c_str());
  std::printf("\n");
  (void)std::fflush(stdout);
  rows_.push_back(std::move(r));
  return rows_.back();
}

void report::add_note(const std::string& text) {
  notes_.push_back(text);
  std::printf("(%s)\n", text.c_str());
  (void)std::fflush(stdout);
}

const row* report::find(const std::string& what) const {
  for (const row& r : rows_) {
    if (r.what == what) return &r;
  }
  return nullptr;
}

double report::to_floor(const row& r) const {
  return r.is_call && floor_ns_ != 0 ? r.value.p50 / floor_ns_ : 0;
}

double report::to_launch(const row& r) const {
  return r.is_call && launch_ns_ != 0 ? r.value.p50 / launch_ns_ : 0;
}

void report::save() const {
  if (!json_file_.empty()) write(json_file_, document().dump(2) + '\n');
  if (!csv_file_.empty()) write(csv_file_, csv());
}

tool::json report::document() const {
  tool::json circumstances;
  for (const auto& [name, value] : circumstances_)
    circumstances[name] = value;
  tool::json figures = tool::json::array();
  for (const row& r : rows_) {
    tool::json figure{{"group", r.group},
                      {"what", r.what},
                      {"unit", r.unit},
                      {"p1", six_digits(r.value.p1)},
                      {"p50", six_digits(r.value.p50)},
                      {"p99", six_digits(r.value.p99)},
                      {"samples", r.value.samples}};
    if (to_floor(r) != 0) figure["to_floor"] = six_digits(to_floor(r));
    if (to_launch(r) != 0) figure["to_best_launch"] = six_digits(to_launch(r));
    if (r.ratio != 0) {
      figure["ratio"] = six_digits(r.ratio);
      figure["against"] = r.against;
    }
    figures.push_back(std::move(figure));
  }
  return {{"circumstances", std::move(circumstances)},
          {"floor_ns", six_digits(floor_ns_)},
          {"best_launch_ns", six_digits(launch_ns_)},
          {"figures", std::move(figures)},
          {"notes", notes_}};
}

std::string report::csv() const {
  std::string text = "group,what,unit,p1,p50,p99,samples,to_floor,to_best_launch,ratio,against\n";
  for (const row& r : rows_) {
    text += csv_cell(r.group) + ',' + csv_cell(r.what) + ',' + r.unit + ',' + number(r.value.p1) +
            ',' + number(r.value.p50) + ',' + number(r.value.p99) + ',' +
            std::to_string(r.value.samples) + ',' + csv_ratio(to_floor(r)) + ',' +
            csv_ratio(to_launch(r)) + ',' + csv_ratio(r.ratio) + ',' + csv_cell(r.against) + '\n';
  }
  return text;
}

} // namespace farcall::bench
