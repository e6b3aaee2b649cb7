#include "report.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>

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

/// Whoever ends this program in the middle leaves the file as it was.
void write(const std::string& file, const std::string& text) {
  const std::string whole = file + ".new";
  std::ofstream out(whole, std::ios::trunc);
  out << text;
  out.close();
  if (!out || std::rename(whole.c_str(), file.c_str()) != 0)
    throw std::runtime_error("cannot write " + file);
}

constexpr std::array<std::string_view, 5> kinds{"other", "call", "floor", "launch", "note"};

std::string_view name_of(row_kind kind) { return kinds[static_cast<std::size_t>(kind)]; }

row_kind kind_of(const std::string& name) {
  const auto at = std::find(kinds.begin(), kinds.end(), name);
  if (at == kinds.end()) throw std::runtime_error("no kind of figure: \"" + name + '"');
  return static_cast<row_kind>(at - kinds.begin());
}

constexpr std::string_view csv_head =
    "group,what,unit,p1,p50,p99,samples,kind,to_floor,to_best_launch,ratio,against\n";
constexpr std::size_t csv_columns = 12;

/// The cells of the line of a table that begins at `at`, which is moved to the next one.
std::vector<std::string> csv_line(const std::string& text, std::size_t& at) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (; at < text.size() && (text[at] != '\n' || is_quoted); ++at) {
    const char c = text[at];
    if (c == '"') {
      // Twice within quotes it is the character.
      if (!is_quoted && at != 0 && text[at - 1] == '"') cells.back() += c;
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  ++at;
  return cells;
}

tool::json what_of(const row* r) { return r == nullptr ? tool::json() : tool::json(r->what); }

double number_in(const std::string& cell) { return std::strtod(cell.c_str(), nullptr); }

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text)
    cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + '"';
}

void print_head(const std::string& group) {
  std::printf("\n%-52s %10s %10s %10s %7s %7s\n", group.c_str(), "p1", "p50", "p99", "/floor",
              "/launch");
}

std::string csv_ratio(double value) { return value == 0 ? "" : number(value); }

} // namespace

void report::add_circumstance(const std::string& name, const std::string& value) {
  circumstances_.emplace_back(name, value);
  std::printf("%-10s %s\n", name.c_str(), value.c_str());
}

void report::begin(const std::string& group) {
  group_ = group;
  print_head(group);
  (void)std::fflush(stdout);
}

const row& report::add(row r) {
  r.group = group_;
  rows_.push_back(std::move(r));
  print(rows_.back());
  (void)std::fflush(stdout);
  save();
  return rows_.back();
}

void report::add_note(const std::string& text) { add({.what = text, .kind = row_kind::note}); }

void report::print(const row& r) const {
  if (r.kind == row_kind::note) {
    std::printf("(%s)\n", r.what.c_str());
    return;
  }
  const auto ratio = [](double value) {
    return value == 0 ? std::string() : printed("%.2f", value);
  };
  std::printf("%-52s %10s %10s %10s %7s %7s", r.what.c_str(), text_of(r.value.p1, r.unit).c_str(),
              text_of(r.value.p50, r.unit).c_str(), text_of(r.value.p99, r.unit).c_str(),
              ratio(to_floor(r)).c_str(), ratio(to_launch(r)).c_str());
  if (r.ratio != 0) std::printf("  %.3f x %s", r.ratio, r.against.c_str());
  std::printf("\n");
}

void report::print() const {
  std::string group;
  for (const row& r : rows_) {
    if (r.group != group) print_head(r.group);
    group = r.group;
    print(r);
  }
  (void)std::fflush(stdout);
}

const row* report::find(const std::string& what) const {
  for (const row& r : rows_) {
    if (r.what == what) return &r;
  }
  return nullptr;
}

const row* report::shortest(row_kind kind) const {
  const row* best = nullptr;
  for (const row& r : rows_) {
    if (r.kind == kind && (best == nullptr || r.value.p50 < best->value.p50)) best = &r;
  }
  return best;
}

double report::to_floor(const row& r) const {
  const row* const against = floor();
  const bool is_compared = r.kind != row_kind::other && r.kind != row_kind::note;
  return is_compared && against != nullptr ? r.value.p50 / against->value.p50 : 0;
}

double report::to_launch(const row& r) const {
  const row* const against = best_launch();
  const bool is_compared = r.kind == row_kind::call || r.kind == row_kind::launch;
  return is_compared && against != nullptr ? r.value.p50 / against->value.p50 : 0;
}

void report::read_csv(const std::string& text) {
  if (!text.starts_with(csv_head)) throw std::runtime_error("no figures of this program");
  std::vector<row> read;
  for (std::size_t at = csv_head.size(); at < text.size();) {
    const std::vector<std::string> cells = csv_line(text, at);
    if (cells.size() != csv_columns) throw std::runtime_error("a line of figures is cut short");
    read.push_back({.group = cells[0],
                    .what = cells[1],
                    .unit = cells[2],
                    .value = {.p1 = number_in(cells[3]),
                              .p50 = number_in(cells[4]),
                              .p99 = number_in(cells[5]),
                              .samples = static_cast<std::size_t>(number_in(cells[6]))},
                    .kind = kind_of(cells[7]),
                    .ratio = number_in(cells[10]),
                    .against = cells[11]});
  }
  rows_.insert(rows_.begin(), read.begin(), read.end());
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
  tool::json notes = tool::json::array();
  for (const row& r : rows_) {
    if (r.kind == row_kind::note) {
      notes.push_back(r.group + ": " + r.what);
      continue;
    }
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
          {"floor", what_of(floor())},
          {"best_launch", what_of(best_launch())},
          {"figures", std::move(figures)},
          {"notes", std::move(notes)}};
}

std::string report::csv() const {
  std::string text(csv_head);
  for (const row& r : rows_) {
    text += csv_cell(r.group) + ',' + csv_cell(r.what) + ',' + r.unit + ',' + number(r.value.p1) +
            ',' + number(r.value.p50) + ',' + number(r.value.p99) + ',' +
            std::to_string(r.value.samples) + ',' + std::string(name_of(r.kind)) + ',' +
            csv_ratio(to_floor(r)) + ',' + csv_ratio(to_launch(r)) + ',' + csv_ratio(r.ratio) +
            ',' + csv_cell(r.against) + '\n';
  }
  return text;
}

} // namespace farcall::bench
