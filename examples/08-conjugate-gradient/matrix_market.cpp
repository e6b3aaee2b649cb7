#include "matrix_market.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace cg {
namespace {

constexpr std::uint64_t max_rows = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t max_line_length = 4096;

struct entry {
  std::uint32_t row;
  std::uint32_t column;
  double value;
  std::uint64_t line;
};

std::string number(double value) {
  std::array<char, 32> text{};
  const auto [end, status] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), status == std::errc{} ? end : text.data()};
}

std::string quoted(std::string_view text) {
  std::string result{'\''};
  return result.append(printable(text, 80)).append("'");
}

std::string position(std::uint64_t row, std::uint64_t column) {
  std::string result{'('};
  return result.append(std::to_string(row + 1)).append(", ").append(std::to_string(column + 1)) +
         ")";
}

std::vector<std::string_view> words(std::string_view text) {
  constexpr std::string_view blank = " \t\r\f\v";
  std::vector<std::string_view> result;
  for (std::size_t begin = text.find_first_not_of(blank); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(blank, begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(blank, end);
  }
  return result;
}

std::string lower(std::string_view text) {
  std::string result{text};
  for (char& c : result)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

template <typename Number>
std::from_chars_result convert(std::string_view text, Number& value) {
  // from_chars knows no plus sign, which Fortran programs like to write.
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc{} && result.ptr != text.data() + text.size()) {
    result.ec = std::errc::invalid_argument;
  }
  return result;
}

/// One pass over a stream, with the place for messages.
class parser {
 public:
  parser(std::istream& in, std::string name) : in_{in}, name_{std::move(name)} {}

  csr_matrix parse() {
    read_header();
    read_size();
    read_entries();
    return build();
  }

 private:
  [[noreturn]] void fail(std::uint64_t line, const std::string& cause) const {
    throw input_error(printable(name_) + ":" + std::to_string(line) + ": " + cause);
  }
  [[noreturn]] void fail(const std::string& cause) const { fail(line_number_, cause); }

  /// Moves to the next line; false at the end of the file.
  bool next_line() {
    in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    if (in_.bad())
      fail(line_number_ + 1, "reading failed: " + std::generic_category().message(errno));
    if (in_.gcount() == 0 && in_.eof()) return false;
    ++line_number_;
    if (in_.fail()) {
      fail("line is longer than " + std::to_string(max_line_length - 1) + " characters");
    }
    // The delimiter counts as extracted but is not stored; the last line may have none.
    const auto extracted = static_cast<std::size_t>(in_.gcount());
    line_ = {buffer_.data(), in_.eof() ? extracted : extracted - 1};
    return true;
  }

  std::uint64_t whole_number(std::string_view text, const char* what) const {
    std::uint64_t value = 0;
    const auto status = convert(text, value).ec;
    if (status == std::errc::result_out_of_range) {
      fail(std::string{what} + " " + quoted(text) + " is too large");
    }
    if (status != std::errc{}) {
      fail(std::string{what} + " " + quoted(text) + " is not a whole number without sign");
    }
    return value;
  }

  double finite_number(std::string_view text) const {
    double value = 0;
    const auto status = convert(text, value).ec;
    if (status == std::errc::result_out_of_range) {
      fail("value " + quoted(text) + " does not fit a double");
    }
    if (status != std::errc{}) fail("value " + quoted(text) + " is not a number");
    if (!std::isfinite(value)) fail("value " + quoted(text) + " is not finite");
    return value;
  }

  void read_header() {
    if (!next_line()) fail(1, "the file is empty; a Matrix Market file starts with %%MatrixMarket");
    const auto header = words(line_);
    if (header.empty() || lower(header[0]) != "%%matrixmarket") {
      fail("the first line must start with %%MatrixMarket, not " + quoted(line_));
    }
    if (header.size() != 5) {
      fail("the header must read '%%MatrixMarket matrix coordinate real symmetric', not " +
           quoted(line_));
    }
    require("object", header[1], {"matrix"});
    require("format", header[2], {"coordinate"});
    require("field", header[3], {"real", "integer"});
    require("symmetry", header[4], {"symmetric", "general"});
    symmetric_ = lower(header[4]) == "symmetric";
  }

  void require(const char* what, std::string_view word,
               std::initializer_list<std::string_view> accepted) const {
    if (std::ranges::find(accepted, lower(word)) != accepted.end()) return;
    std::string list;
    for (const std::string_view one : accepted) {
      list += (list.empty() ? "" : " or ") + std::string{one};
    }
    fail(std::string{what} + " " + quoted(word) + " in the header cannot be used; it must be " +
         list);
  }

  void read_size() {
    do {
      if (!next_line()) fail("the file ends before the line with its sizes");
    } while (line_.starts_with('%') || words(line_).empty());
    const auto sizes = words(line_);
    if (sizes.size() != 3) {
      fail("expected 'rows columns entries', not " + quoted(line_));
    }
    size_line_ = line_number_;
    rows_ = whole_number(sizes[0], "number of rows");
    const std::uint64_t columns = whole_number(sizes[1], "number of columns");
    promised_ = whole_number(sizes[2], "number of entries");
    if (rows_ != columns) {
      fail("the matrix is not square: " + std::to_string(rows_) + " rows and " +
           std::to_string(columns) + " columns");
    }
    if (rows_ == 0) fail("the matrix has no rows");
    if (rows_ > max_rows) {
      fail(std::to_string(rows_) + " rows are more than the " + std::to_string(max_rows) +
           " that this program handles");
    }
    // Fits: rows_ < 2^31.
    const std::uint64_t most = symmetric_ ? rows_ * (rows_ + 1) / 2 : rows_ * rows_;
    if (promised_ > most) {
      fail(std::to_string(promised_) + " entries are more than a " +
           (symmetric_ ? "symmetric" : "general") + " matrix of " + std::to_string(rows_) +
           " rows can have");
    }
    if (promised_ < rows_) {
      fail(std::to_string(promised_) + " entries for " + std::to_string(rows_) +
           " rows leave some row without diagonal entry; the matrix is not positive definite");
    }
  }

  void read_entries() {
    while (next_line()) {
      const auto fields = words(line_);
      if (fields.empty()) continue;
      if (read_ == promised_) {
        fail("more entries than the " + std::to_string(promised_) + " promised on line " +
             std::to_string(size_line_));
      }
      if (fields.size() != 3) fail("expected 'row column value', not " + quoted(line_));
      const std::uint32_t row = index(fields[0], "row");
      const std::uint32_t column = index(fields[1], "column");
      const double value = finite_number(fields[2]);
      if (row == column && value <= 0) {
        fail("diagonal entry " + position(row, column) + " is " + number(value) +
             "; a positive definite matrix has none that is zero or negative");
      }
      entries_.push_back({.row = row, .column = column, .value = value, .line = line_number_});
      if (symmetric_ && row != column) {
        entries_.push_back({.row = column, .column = row, .value = value, .line = line_number_});
      }
      ++read_;
    }
    if (read_ < promised_) {
      fail("the file ends after " + std::to_string(read_) + " of the " + std::to_string(promised_) +
           " entries promised on line " + std::to_string(size_line_));
    }
  }

  std::uint32_t index(std::string_view text, const char* what) const {
    const std::uint64_t value = whole_number(text, what);
    if (value < 1 || value > rows_) {
      fail(std::string{what} + " " + quoted(text) + " is outside 1 to " + std::to_string(rows_));
    }
    return static_cast<std::uint32_t>(value - 1);
  }

  csr_matrix build() {
    std::ranges::sort(entries_, [](const entry& a, const entry& b) {
      return std::tie(a.row, a.column, a.line) < std::tie(b.row, b.column, b.line);
    });
    const auto same_place = [](const entry& a, const entry& b) {
      return a.row == b.row && a.column == b.column;
    };
    if (const auto twin = std::ranges::adjacent_find(entries_, same_place);
        twin != entries_.end()) {
      const entry& again = *std::next(twin);
      fail(again.line, "entry " + position(again.row, again.column) +
                           (symmetric_ ? " or its mirror image" : "") +
                           " is given a second time, first on line " + std::to_string(twin->line));
    }
    if (!symmetric_) check_symmetry();

    csr_matrix matrix;
    matrix.row_start.reserve(rows_ + 1);
    matrix.column.reserve(entries_.size());
    matrix.value.reserve(entries_.size());
    auto next = entries_.begin();
    for (std::uint32_t row = 0; row < rows_; ++row) {
      bool has_diagonal = false;
      for (; next != entries_.end() && next->row == row; ++next) {
        has_diagonal = has_diagonal || next->column == row;
        matrix.column.push_back(next->column);
        matrix.value.push_back(next->value);
      }
      if (!has_diagonal) {
        fail(size_line_, "row " + std::to_string(row + 1) +
                             " has no diagonal entry; the matrix is not positive definite");
      }
      matrix.row_start.push_back(matrix.value.size());
    }
    return matrix;
  }

  /// Needs the entries sorted.
  void check_symmetry() const {
    for (const entry& one : entries_) {
      const auto mirror =
          std::ranges::lower_bound(entries_, std::pair{one.column, one.row}, {},
                                   [](const entry& e) { return std::pair{e.row, e.column}; });
      const bool present =
          mirror != entries_.end() && mirror->row == one.column && mirror->column == one.row;
      const double other = present ? mirror->value : 0;
      const double larger = std::max(std::abs(one.value), std::abs(other));
      if (std::abs(one.value - other) <= symmetry_tolerance * larger) continue;
      fail(one.line, "the matrix is not symmetric: entry " + position(one.row, one.column) +
                         " is " + number(one.value) + " but " + position(one.column, one.row) +
                         (present ? " is " + number(other) : std::string{" is missing"}));
    }
  }

  std::istream& in_;
  std::string name_;
  std::array<char, max_line_length> buffer_{};
  std::string_view line_;
  std::uint64_t line_number_ = 0;
  std::uint64_t size_line_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t promised_ = 0;
  std::uint64_t read_ = 0;
  bool symmetric_ = false;
  std::vector<entry> entries_;
};

} // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string result{text.substr(0, longest)};
  for (char& c : result) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  if (text.size() > longest) result += "...";
  return result;
}

csr_matrix parse_matrix_market(std::istream& in, std::string name) {
  return parser{in, std::move(name)}.parse();
}

csr_matrix read_matrix_market(const std::filesystem::path& path) {
  // Opening a directory succeeds and only reading it fails, without a reason worth reading.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw input_error(printable(path.string()) + ": is a directory, not a Matrix Market file");
  }
  errno = 0;
  std::ifstream file{path};
  if (!file) {
    throw input_error(printable(path.string()) +
                      ": cannot be opened: " + std::generic_category().message(errno));
  }
  return parse_matrix_market(file, path.string());
}

} // namespace cg
