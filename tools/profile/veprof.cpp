// SPDX-License-Identifier: Apache-2.0
#include "veprof.hpp"

#include "check.hpp"
#include "text.hpp"

#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <farcall/base/unique_fd.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::string_view veprof_version = "0.1";
constexpr std::string_view veprof_first_line = "# version;PMMR;hostname;card;mhz\n";
constexpr std::string_view veprof_third_line =
    "# "
    "samples;USRCC;EX;VX;FPEC;VE;VECC;L1MCC;VE2;VAREC;VLDEC;PCCC;PMC10;VLEC;VLCME;FMAEC;PTCC;TTCC;"
    "VL;symbol\n";
constexpr std::size_t head_fields = 5;
/// Name of the card in files of a sampler that is software, such as `farcall prof`. Such a sampler
/// counts time only.
constexpr std::string_view no_card = "-";
/// Frequency in files of a sampler that is software, so that a cycle in these files is a
/// nanosecond.
constexpr double cycles_per_second = 1e9;
// Maximum number of bytes of a file that is shown.
constexpr std::size_t max_bytes = std::size_t{1} << 28U;

[[noreturn]] void refuse(const std::string& name, std::size_t line, const std::string& why) {
  throw failed_run(fmt::format("{}: line {}: {}", name, line, why));
}

[[noreturn]] void refuse_foreign(const std::string& name, std::size_t line,
                                 const std::string& why) {
  refuse(name, line,
         why + "; it is no veprof.out, whose second line is "
               "\"0.1;PMMR;hostname;card;mhz\"");
}

/// Reads lines. Each line must have a line end, so that a truncated file is noticed at its last
/// line at the latest.
class line_reader {
 public:
  line_reader(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::size_t number() const { return number_; }

  std::string_view next() {
    ++number_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos)
      refuse(name_, number_, "the file ends here, in the middle; write it again");
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

 private:
  std::string_view rest_;
  const std::string& name_;
  std::size_t number_ = 0;
};

/// Divides a line into `count` fields. The last field may contain semicolons.
std::vector<std::string_view> fields_of(std::string_view line, std::size_t count) {
  std::vector<std::string_view> fields;
  while (fields.size() + 1 < count) {
    const std::size_t end = line.find(';');
    if (end == std::string_view::npos) break;
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  fields.push_back(line);
  return fields;
}

/// Reads a non-negative number into `value`, which stays empty for an empty field. Returns false
/// for anything else.
bool read_number(std::string_view text, std::optional<double>& value) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  if (text.empty()) return true;
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size() || !(number >= 0) ||
      !std::isfinite(number))
    return false;
  value = number;
  return true;
}

/// Returns the text as a field of a veprof.out. The field is never empty, and has neither
/// semicolons nor control characters, so that all readers take it as one field of text.
std::string field_of(std::string_view text) {
  std::string field = valid_text(text);
  std::replace(field.begin(), field.end(), ';', ':');
  std::replace_if(
      field.begin(), field.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (field.empty()) return "-";
  std::string small = field;
  std::transform(small.begin(), small.end(), small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  // Change a name such as "nan", because programs in Python that read the file would parse it as a
  // number.
  if (small == "nan" || small == "inf" || small == "infinity") field += "()";
  return field;
}

veprof_row row_of(std::string_view line, const std::string& name, std::size_t number) {
  const auto fields = fields_of(line, ve_counters + 2);
  if (fields.size() != ve_counters + 2) {
    refuse(name, number,
           fmt::format("{} fields, a function has {}: the file is damaged", fields.size(),
                       ve_counters + 2));
  }
  veprof_row row;
  std::optional<double> samples;
  for (std::size_t i = 0; i <= ve_counters; ++i) {
    if (!read_number(fields[i], i == 0 ? samples : row.counters.at(i - 1)))
      refuse(name, number, fmt::format("\"{}\" is no number", valid_text(fields[i])));
  }
  if (!samples) refuse(name, number, "a function without samples: the file is damaged");
  row.samples = *samples;
  row.symbol = valid_text(fields.back());
  return row;
}

std::optional<double> ratio(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || *whole <= 0) return {};
  return *part / *whole;
}

std::optional<double> times(std::optional<double> value, double factor) {
  if (!value) return {};
  return *value * factor;
}

/// A column of veprof_display's table. Its values are computed from the counters.
struct veprof_column {
  std::string header;
  int decimals;
  std::vector<std::optional<double>> values = {}; ///< of each row
};

std::vector<veprof_column> columns_of(const veprof_file& file) {
  double all_samples = 0;
  double all_cycles = 0;
  for (const veprof_row& row : file.rows) {
    all_samples += row.samples;
    all_cycles += row[ve_counter::usrcc].value_or(0);
  }
  std::vector<veprof_column> columns{{"SAMPLES %", 1},   {"TIME %", 1},     {"TIME [s]", 3},
                                     {"VECTIME [s]", 3}, {"VTIME %", 1},    {"VARITHM [s]", 3},
                                     {"VLOAD [s]", 3},   {"VOP %", 1},      {"MFLOPS", 1},
                                     {"MOPS", 1},        {"AVG VLEN", 1},   {"L1$ MISS [s]", 3},
                                     {"PRTCNF [s]", 3},  {"LLC$E HIT %", 1}};
  const std::optional<double> hertz = times(file.mhz, 1e6);
  for (const veprof_row& row : file.rows) {
    using enum ve_counter;
    const auto cycles = row[usrcc];
    // Number of operations: scalar instructions, and elements of vector instructions.
    std::optional<double> operations;
    if (row[ex] && row[vx] && row[ve]) operations = *row[ex] - *row[vx] + *row[ve];
    std::optional<double> hits;
    if (row[vlec] && row[vlcme]) hits = *row[vlec] - *row[vlcme];
    // Number of operations, if a fused multiply-add counts as two operations.
    std::optional<double> all_operations;
    if (operations && row[fmaec]) all_operations = *operations + *row[fmaec];
    const auto millions_per_second = [&](std::optional<double> count) {
      return file.mhz ? ratio(times(count, *file.mhz), cycles) : std::nullopt;
    };
    const std::vector<std::optional<double>> values{times(ratio(row.samples, all_samples), 100),
                                                    times(ratio(cycles, all_cycles), 100),
                                                    ratio(cycles, hertz),
                                                    ratio(row[vecc], hertz),
                                                    times(ratio(row[vecc], cycles), 100),
                                                    ratio(row[varec], hertz),
                                                    ratio(row[vldec], hertz),
                                                    times(ratio(row[ve], operations), 100),
                                                    millions_per_second(row[fpec]),
                                                    millions_per_second(all_operations),
                                                    ratio(row[ve], row[vx]),
                                                    ratio(row[l1mcc], hertz),
                                                    ratio(row[pccc], hertz),
                                                    times(ratio(hits, row[vlec]), 100)};
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i].values.push_back(values[i]);
  }
  std::erase_if(columns, [](const veprof_column& column) {
    return std::none_of(column.values.begin(), column.values.end(),
                        [](const auto& value) { return value.has_value(); });
  });
  return columns;
}

/// Sorts the rows by descending number of samples, and by name.
void sort_rows(veprof_file& file) {
  std::sort(file.rows.begin(), file.rows.end(), [](const veprof_row& a, const veprof_row& b) {
    return std::tie(b.samples, a.symbol) < std::tie(a.samples, b.symbol);
  });
}

} // namespace

veprof_file veprof_of(const profile& seen, std::string_view host) {
  check(seen);
  std::map<std::string, std::uint64_t> samples_of;
  for (const profile_sample& sample : seen.samples)
    ++samples_of[name_of(seen.frames[seen.stacks[sample.stack].frame])];
  veprof_file file{.version = std::string(veprof_version),
                   .pmmr = "0",
                   .host = field_of(host),
                   .card = std::string(no_card),
                   .mhz = cycles_per_second / 1e6,
                   .rows = {}};
  for (const auto& [symbol, samples] : samples_of) {
    veprof_row& row = file.rows.emplace_back();
    row.samples = static_cast<double>(samples);
    row.counters.at(static_cast<std::size_t>(ve_counter::usrcc)) =
        std::max(1.0, std::round(row.samples * seen.seconds_per_sample() * cycles_per_second));
    row.symbol = field_of(symbol);
  }
  sort_rows(file);
  return file;
}

std::string veprof_text(const profile& seen, std::string_view host) {
  const veprof_file file = veprof_of(seen, host);
  std::string text(veprof_first_line);
  text +=
      fmt::format("{};{};{};{};{:.0f}\n", file.version, file.pmmr, file.host, file.card, *file.mhz);
  text += veprof_third_line;
  for (const veprof_row& row : file.rows) {
    // Write 1 as the number of instructions, because veprof_display divides by this number.
    text += fmt::format("{:.0f};{:.0f};1", row.samples, *row[ve_counter::usrcc]);
    for (std::size_t counter = 2; counter < ve_counters; ++counter)
      text += ";0";
    text += ';' + row.symbol + '\n';
  }
  return text;
}

veprof_file parse_veprof(std::string_view text, const std::string& name) {
  if (text.empty()) throw failed_run(name + ": the file is empty; give a veprof.out");
  line_reader lines(text, name);
  (void)lines.next(); // a comment
  if (lines.at_end()) refuse_foreign(name, lines.number() + 1, "there is none");
  const auto head = fields_of(lines.next(), head_fields);
  if (head.size() != head_fields)
    refuse_foreign(name, lines.number(), fmt::format("{} fields instead of 5", head.size()));
  if (head[0] != veprof_version) {
    refuse_foreign(
        name, lines.number(),
        fmt::format("version \"{}\" instead of {}", valid_text(head[0]), veprof_version));
  }
  veprof_file file{.version = valid_text(head[0]),
                   .pmmr = valid_text(head[1]),
                   .host = valid_text(head[2]),
                   .card = valid_text(head[3]),
                   .mhz = {},
                   .rows = {}};
  if (!read_number(head[4], file.mhz) || file.mhz == 0.0)
    refuse(name, lines.number(), fmt::format("\"{}\" is no frequency", valid_text(head[4])));
  if (lines.at_end())
    refuse(name, lines.number() + 1, "the file ends before its functions; write it again");
  (void)lines.next(); // a comment
  while (!lines.at_end()) {
    const std::string_view line = lines.next();
    if (line.empty()) continue;
    veprof_row& row = file.rows.emplace_back(row_of(line, name, lines.number()));
    if (file.card != no_card) continue;
    const auto time = row[ve_counter::usrcc];
    row.counters = {};
    row.counters.at(static_cast<std::size_t>(ve_counter::usrcc)) = time;
  }
  return file;
}

std::string veprof_table(const veprof_file& asked) {
  veprof_file file = asked;
  sort_rows(file);
  double all_samples = 0;
  for (const veprof_row& row : file.rows)
    all_samples += row.samples;

  constexpr std::size_t name_width = 20;
  const auto columns = columns_of(file);
  std::string text = fmt::format("{:<{}}", "FUNCTION", name_width);
  for (const veprof_column& column : columns)
    text += fmt::format("  {:>9}", column.header);
  if (columns.empty()) text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
  for (std::size_t i = 0; i < file.rows.size(); ++i) {
    std::string name = file.rows[i].symbol;
    if (display_width(name) > name_width) {
      text += name + '\n';
      name.clear();
    }
    text += name + std::string(name_width - display_width(name), ' ');
    for (const veprof_column& column : columns) {
      const auto& value = column.values[i];
      text += fmt::format("  {:>{}}", value ? fmt::format("{:.{}f}", *value, column.decimals) : "-",
                          std::max<std::size_t>(9, column.header.size()));
    }
    text += '\n';
  }
  return text + fmt::format("{:.0f} samples\n", all_samples);
}

void print_veprof(std::FILE* to, const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 65536> part{};
  ssize_t taken = file ? 1 : -1;
  while (taken > 0) {
    taken = ::read(file.get(), part.data(), part.size());
    if (taken > 0) text.append(part.data(), static_cast<std::size_t>(taken));
    if (taken < 0 && errno == EINTR) taken = 1;
    if (text.size() > max_bytes)
      throw failed_run(path + ": too large for a veprof.out; give another file");
  }
  if (taken < 0)
    throw failed_run("cannot read " + path + ": " + std::generic_category().message(errno));
  write_text(to, veprof_table(parse_veprof(text, path)), "the table of " + path);
}

} // namespace farcall::tool
