// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::tool {

/// A table as text for users. Each column is as wide as its widest cell. Text is aligned left, and
/// numbers right.
class table {
 public:
  enum class align { left, right };

  struct column {
    std::string header;
    align side = align::right;
  };

  /// Length of the dashes under the header of the last column. With is_ruled, they are as long as
  /// the column is wide. With is_open, they are as long as the header.
  enum class last_column { is_ruled, is_open };

  explicit table(std::vector<column> columns, last_column last = last_column::is_ruled)
      : columns_(std::move(columns)), last_(last) {}

  /// Adds a row. Missing cells at the end stay empty. Throws std::logic_error if there are more
  /// cells than columns. Invalid UTF-8 and control characters are replaced, as by valid_text().
  void add_row(std::vector<std::string> cells);

  /// Returns the header, a line of dashes, and the rows. Lines end with a newline and have no
  /// trailing spaces.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<column> columns_;
  last_column last_;
  std::vector<std::vector<std::string>> rows_;
};

/// Returns the number of columns that a text takes on a terminal. Each UTF-8 code point counts as
/// one column.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// Returns a time with three digits and a suitable unit, such as "187 ns", "1.05 us", "12.3 ms" or
/// "2.50 s".
[[nodiscard]] std::string format_time(double nanoseconds);
/// Returns a size such as "8 B", "64 KiB" or "1 GiB". The number has one decimal if the size is not
/// a multiple of the unit.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);
/// Returns "12.3 M/s".
[[nodiscard]] std::string format_rate(double per_second);
/// Returns "1.07 x".
[[nodiscard]] std::string format_ratio(double ratio);
/// Returns a number with three significant digits, without a unit.
[[nodiscard]] std::string format_number(double value);

} // namespace farcall::tool
