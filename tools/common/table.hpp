#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::tool {

/// A table for people: columns as wide as their widest cell, text to the left, numbers to the
/// right.
class table {
 public:
  enum class align { left, right };

  struct column {
    std::string header;
    align side = align::right;
  };

  /// Whether the line of dashes is as wide as the last column, or as its header.
  enum class last_column { is_ruled, is_open };

  explicit table(std::vector<column> columns, last_column last = last_column::is_ruled)
      : columns_(std::move(columns)), last_(last) {}

  /// Cells that are missing at the end stay empty; more cells than columns are a mistake of the
  /// caller (throws). What is no text in them is shown as valid_text() has it.
  void add_row(std::vector<std::string> cells);

  /// Header, a line of dashes, the rows; each line ends with a newline and has no trailing blanks.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<column> columns_;
  last_column last_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns that the text takes on a terminal, taking each UTF-8 code point as one.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// "187 ns", "1.05 us", "12.3 ms", "2.50 s": three digits and the unit that suits.
[[nodiscard]] std::string format_time(double nanoseconds);
/// "8 B", "64 KiB", "1 GiB"; one decimal when it does not divide evenly.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);
/// "12.3 M/s".
[[nodiscard]] std::string format_rate(double per_second);
/// "1.07 x".
[[nodiscard]] std::string format_ratio(double ratio);
/// Three significant digits, no unit.
[[nodiscard]] std::string format_number(double value);

} // namespace farcall::tool
