#include "report.hpp"

#include <array>
#include <cstdio>
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

/// Three digits and a word.
std::string scaled(double value, std::initializer_list<std::pair<double, const char*>> units) {
  for (const auto& [size, word] : units) {
    if (value < size * 999.5 || word == (units.end() - 1)->second) {
      const double n = value / size;
      return printed(n < 9.995 ? "%.2f %s" : n < 99.95 ? "%.1f %s" : "%.0f %s", n, word);
    }
  }
  return {};
}

std::string text_of(double value, const std::string& unit) {
  if (unit == "ns") return text_of_ns(value);
  if (unit == "calls/s") return scaled(value, {{1, "/s"}, {1e3, "k/s"}, {1e6, "M/s"}});
  return scaled(value, {{1, unit.c_str()}});
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

std::string text_of_ns(double ns) {
  return scaled(ns, {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}});
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += printed("\\u%04x", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

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
  if (!json_file_.empty()) write(json_file_, json());
  if (!csv_file_.empty()) write(csv_file_, csv());
}

std::string report::json() const {
  std::string text = "{\n  \"circumstances\": {";
  const char* before = "\n";
  for (const auto& [name, value] : circumstances_) {
    text += before + ("    " + quoted(name)) + ": " + quoted(value);
    before = ",\n";
  }
  text += "\n  },\n  \"floor_ns\": " + number(floor_ns_) +
          ",\n  \"best_launch_ns\": " + number(launch_ns_) + ",\n  \"figures\": [";
  before = "\n";
  for (const row& r : rows_) {
    text += before + ("    {\"group\": " + quoted(r.group)) + ", \"what\": " + quoted(r.what) +
            ", \"unit\": " + quoted(r.unit) + ", \"p1\": " + number(r.value.p1) +
            ", \"p50\": " + number(r.value.p50) + ", \"p99\": " + number(r.value.p99) +
            ", \"samples\": " + std::to_string(r.value.samples);
    if (to_floor(r) != 0) text += ", \"to_floor\": " + number(to_floor(r));
    if (to_launch(r) != 0) text += ", \"to_best_launch\": " + number(to_launch(r));
    if (r.ratio != 0)
      text += ", \"ratio\": " + number(r.ratio) + ", \"against\": " + quoted(r.against);
    text += '}';
    before = ",\n";
  }
  text += "\n  ],\n  \"notes\": [";
  before = "\n";
  for (const std::string& note : notes_) {
    text += before + ("    " + quoted(note));
    before = ",\n";
  }
  return text + "\n  ]\n}\n";
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
