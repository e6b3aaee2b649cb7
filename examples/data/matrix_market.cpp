// SPDX-License-Identifier: Apache-2.0
#include "matrix.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <type_traits>
#include <utility>

namespace cg {
namespace {

struct entry {
  std::uint32_t row, column;
  double value;
  std::uint64_t line;
  [[nodiscard]] auto place() const { return std::pair{row, column}; }
  [[nodiscard]] entry mirrored() const { return {column, row, value, line}; }
  [[nodiscard]] std::string text() const { return join('(', row + 1, ", ", column + 1, ')'); }
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Returns true if the word is a number with the exponent letter D in place of E.
template <class Number>
bool has_fortran_exponent(std::string_view word, Number value) {
  std::string text(word.substr(word.starts_with('+') ? 1 : 0));
  const std::size_t at = text.find_first_of("dD");
  if (!std::is_floating_point_v<Number> || at == text.npos) return false;
  text[at] = 'e';
  return read_number(text, value) == std::errc{};
}

/// One pass over the lines of a stream, with the position for messages.
struct reader {
  std::istream& in;
  const std::string& name;
  std::array<char, 4096> buffer{};
  std::uint64_t line = 0;
  std::string text = {};               ///< of the current line
  std::vector<std::string> words = {}; ///< of the current line

  [[noreturn]] void fail_at(std::uint64_t at, const auto&... cause) const {
    throw input_error(join(printable(name), ':', at, ": ", cause...));
  }
  [[noreturn]] void fail(const auto&... cause) const { fail_at(line, cause...); }

  /// Moves to the next line; returns false at the end of the file.
  bool next_line() {
    in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    if (in.bad()) fail_at(line + 1, "reading failed: ", std::generic_category().message(errno));
    if (in.gcount() == 0 && in.eof()) return false;
    ++line;
    if (in.fail()) fail("line is longer than ", buffer.size() - 1, " characters");
    // The delimiter is counted but not stored; the last line may have none.
    text.assign(buffer.data(), static_cast<std::size_t>(in.gcount()) - (in.eof() ? 0 : 1));
    std::istringstream all{text};
    words.assign(std::istream_iterator<std::string>{all}, {});
    return true;
  }

  void number(std::string_view word, auto& value, const char* what, const char* too_large,
              const char* no_number) const {
    // from_chars rejects a plus sign, which Fortran programs often write.
    const bool has_plus = word.size() > 1 && word[0] == '+' && word[1] != '-';
    const std::errc status = read_number(word.substr(has_plus ? 1 : 0), value);
    if (status == std::errc::invalid_argument && has_fortran_exponent(word, value))
      fail(what, ' ', in_quotes(word),
           " has the exponent letter D, as Fortran writes it; replace it "
           "by E");
    if (status == std::errc::result_out_of_range) fail(what, ' ', in_quotes(word), too_large);
    if (status != std::errc{}) fail(what, ' ', in_quotes(word), no_number);
  }
  [[nodiscard]] std::uint64_t whole(std::string_view word, const char* what) const {
    std::uint64_t value = 0;
    number(word, value, what, " is too large", " is not a whole number without sign");
    return value;
  }
  [[nodiscard]] std::uint32_t index(std::string_view word, const char* what,
                                    std::uint64_t rows) const {
    const std::uint64_t value = whole(word, what);
    if (value < 1 || value > rows) fail(what, ' ', in_quotes(word), " is outside 1 to ", rows);
    return static_cast<std::uint32_t>(value - 1);
  }
};

} // namespace

csr_matrix parse_matrix_market(std::istream& in, std::string name) {
  reader r{.in = in, .name = name};
  if (!r.next_line())
    r.fail_at(1, "the file is empty; a Matrix Market file starts with %%MatrixMarket");
  if (r.text.starts_with("\xef\xbb\xbf"))
    r.fail("the file starts with a byte order mark; save it as UTF-8 without one, or as ASCII");
  if (r.words.empty() || lower(r.words[0]) != "%%matrixmarket")
    r.fail("the first line must start with %%MatrixMarket, not ", in_quotes(r.text));
  if (r.words.size() != 5)
    r.fail("the header must read '%%MatrixMarket matrix coordinate real symmetric', not ",
           in_quotes(r.text));
  std::size_t next_word = 0;
  for (const auto& [what, accepted] : {std::pair{"object", " matrix "},
                                       {"format", " coordinate "},
                                       {"field", " real or integer "},
                                       {"symmetry", " symmetric or general "}}) {
    const std::string& word = r.words[++next_word];
    const std::string small = lower(word);
    const std::string_view list = accepted;
    if (small == "or" || list.find(' ' + small + ' ') == list.npos)
      r.fail(what, ' ', in_quotes(word), " in the header cannot be used; it must be ",
             list.substr(1, list.size() - 2));
  }
  const bool is_symmetric = lower(r.words[4]) == "symmetric";

  do
    if (!r.next_line()) r.fail("the file ends before the line with its sizes");
  while (r.words.empty() || r.text[0] == '%');
  if (r.words.size() != 3) r.fail("expected 'rows columns entries', not ", in_quotes(r.text));
  const std::uint64_t size_line = r.line;
  const std::uint64_t rows = r.whole(r.words[0], "number of rows");
  const std::uint64_t columns = r.whole(r.words[1], "number of columns");
  const std::uint64_t promised = r.whole(r.words[2], "number of entries");
  constexpr std::uint64_t max_rows = 0x7fffffff;
  if (rows != columns)
    r.fail("the matrix is not square: ", rows, " rows and ", columns, " columns");
  if (rows == 0) r.fail("the matrix has no rows");
  if (rows > max_rows)
    r.fail(rows, " rows are more than the ", max_rows, " that this program handles");
  if (promised > (is_symmetric ? rows * (rows + 1) / 2 : rows * rows))
    r.fail(promised, " entries are more than a ", is_symmetric ? "symmetric" : "general",
           " matrix of ", rows, " rows can have");
  if (promised < rows)
    r.fail(promised, " entries for ", rows,
           " rows leave some row without diagonal entry; the matrix is not positive definite");

  std::vector<entry> entries;
  std::uint64_t read = 0;
  while (r.next_line()) {
    if (r.words.empty()) continue;
    if (read++ == promised)
      r.fail("more entries than the ", promised, " promised on line ", size_line);
    if (r.words.size() != 3) r.fail("expected 'row column value', not ", in_quotes(r.text));
    entry e{r.index(r.words[0], "row", rows), r.index(r.words[1], "column", rows), 0, r.line};
    r.number(r.words[2], e.value, "value", " does not fit a double", " is not a number");
    if (!std::isfinite(e.value)) r.fail("value ", in_quotes(r.words[2]), " is not finite");
    if (e.row == e.column && e.value <= 0)
      r.fail("diagonal entry ", e.text(), " is ", number_text(e.value),
             "; a positive definite matrix has none that is zero or negative");
    entries.push_back(e);
    if (is_symmetric && e.row != e.column) entries.push_back(e.mirrored());
  }
  if (read < promised)
    r.fail("the file ends after ", read, " of the ", promised, " entries promised on line ",
           size_line);

  std::ranges::sort(entries, {}, [](const entry& e) { return std::pair{e.place(), e.line}; });
  const auto twin = std::ranges::adjacent_find(entries, {}, &entry::place);
  if (twin != entries.end())
    r.fail_at(twin[1].line, "entry ", twin->text(), is_symmetric ? " or its mirror image" : "",
              " is given a second time, first on line ", twin->line);
  for (const entry& one : is_symmetric ? std::span<entry>{} : std::span{entries}) {
    const auto other = std::ranges::lower_bound(entries, one.mirrored().place(), {}, &entry::place);
    const bool is_there = other != entries.end() && other->place() == one.mirrored().place();
    const double value = is_there ? other->value : 0;
    if (std::abs(one.value - value) >
        symmetry_tolerance * std::max(std::abs(one.value), std::abs(value)))
      r.fail_at(one.line, "the matrix is not symmetric: entry ", one.text(), " is ",
                number_text(one.value), " but ", one.mirrored().text(), " is ",
                is_there ? number_text(value) : "missing");
  }
  csr_matrix matrix;
  auto next = entries.begin();
  for (std::uint32_t row = 0; row < rows; ++row) {
    bool has_diagonal = false;
    for (; next != entries.end() && next->row == row; ++next) {
      has_diagonal = has_diagonal || next->column == row;
      matrix.column.push_back(next->column);
      matrix.value.push_back(next->value);
    }
    if (!has_diagonal)
      r.fail_at(size_line, "row ", row + 1,
                " has no diagonal entry; the matrix is not positive definite");
    matrix.row_start.push_back(matrix.value.size());
  }
  return matrix;
}

csr_matrix read_matrix_market(const std::filesystem::path& path) {
  // Opening a directory succeeds; reading it fails, without a useful reason.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw input_error(printable(path.string()) + ": is a directory, not a Matrix Market file");
  errno = 0;
  std::ifstream file{path};
  if (!file)
    throw input_error(join(printable(path.string()),
                           ": cannot be opened: ", std::generic_category().message(errno)));
  return parse_matrix_market(file, path.string());
}

} // namespace cg
