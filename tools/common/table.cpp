// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <farcall/base/text.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <utility>

namespace farcall::tool {

namespace {

void append_padded(std::string& out, const std::string& cell, std::size_t width,
                   table::align side) {
  const std::size_t padding = width - std::min(width, display_width(cell));
  if (side == table::align::right) out.append(padding, ' ');
  out += cell;
  if (side == table::align::left) out.append(padding, ' ');
}

void finish_line(std::string& out) {
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

std::string with_decimals(double value, int decimals) {
  std::array<char, 400> text{};
  (void)std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string with_prefix(double value, double step, std::span<const char* const> units) {
  std::size_t unit = 0;
  // Use the next unit from 999.5 on, because 999.5 rounded to three digits would be printed as
  // 1000.
  while (unit + 1 < units.size() && std::abs(value) >= 0.9995 * step) {
    value /= step;
    ++unit;
  }
  return format_number(value) + ' ' + units[unit];
}

} // namespace

void table::add_row(std::vector<std::string> cells) {
  if (cells.size() > columns_.size()) {
    throw std::logic_error("table row has " + std::to_string(cells.size()) +
                           " cells, the table has " + std::to_string(columns_.size()) + " columns");
  }
  cells.resize(columns_.size());
  for (std::string& cell : cells)
    cell = valid_text(cell);
  rows_.push_back(std::move(cells));
}

std::string table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].header);
    for (const auto& row : rows_)
      width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto gap = [&](std::size_t c) { return c == 0 ? "" : "  "; };
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    out += gap(c);
    append_padded(out, columns_[c].header, widths[c], columns_[c].side);
  }
  finish_line(out);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    out += gap(c);
    const bool is_open = last_ == last_column::is_open && c + 1 == columns_.size();
    out.append(is_open ? display_width(columns_[c].header) : widths[c], '-');
  }
  finish_line(out);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      out += gap(c);
      append_padded(out, row[c], widths[c], columns_[c].side);
    }
    finish_line(out);
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    // Count only the first byte of each UTF-8 character, because the following bytes take no
    // column.
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  return with_decimals(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

std::string format_time(double nanoseconds) {
  static constexpr std::array units{"ns", "us", "ms", "s"};
  if (!std::isfinite(nanoseconds)) return "-";
  return with_prefix(nanoseconds, 1000.0, units);
}

std::string format_rate(double per_second) {
  static constexpr std::array units{"/s", "k/s", "M/s", "G/s"};
  if (!std::isfinite(per_second)) return "-";
  return with_prefix(per_second, 1000.0, units);
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (unit + 1 < units.size() && value >= 1024.0) {
    value /= 1024.0;
    ++unit;
  }
  const bool whole = value == std::floor(value);
  return with_decimals(value, whole ? 0 : 1) + ' ' + units[unit];
}

std::string format_ratio(double ratio) {
  return std::isfinite(ratio) ? format_number(ratio) + " x" : "-";
}

} // namespace farcall::tool
