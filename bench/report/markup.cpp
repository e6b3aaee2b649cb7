#include "markup.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

std::string without_needless_zeros(std::string text) {
  const std::size_t point = text.find('.');
  if (point == std::string::npos) return text;
  std::size_t end = point;
  while (end + 1 < text.size() && text[end + 1] >= '0' && text[end + 1] <= '9')
    ++end;
  std::size_t last = end;
  while (text[last] == '0')
    --last;
  if (last == point) --last;
  return text.erase(last + 1, end - last);
}

/// With decimal prefixes as rates are counted, and a unit of its own.
std::string prefixed(double value, std::string_view of) {
  std::string text = format_rate(value);
  return text.replace(text.size() - 2, 2, of);
}

/// Thousands apart: "300,000".
std::string grouped(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3; at -= 3)
    digits.insert(at - 3, 1, ',');
  return digits;
}

} // namespace

std::string coordinate(double value) {
  if (!std::isfinite(value) || std::abs(value) < 0.005) return "0";
  return without_needless_zeros(fmt::format("{:.2f}", value));
}

std::string value_text(unit counts, double value) {
  if (!std::isfinite(value)) return "-";
  switch (counts) {
  case unit::nanoseconds: {
    std::string text = format_time(value);
    if (text.ends_with(" us")) text.replace(text.size() - 2, 1, "µ");
    return text;
  }
  case unit::bytes:
    return value < 0 ? "-" + value_text(counts, -value)
                     : format_bytes(static_cast<std::uint64_t>(std::llround(value)));
  case unit::per_second:
    return format_rate(value);
  case unit::bytes_per_second:
    return prefixed(value, "B/s");
  case unit::percent:
    return fmt::format("{:.3g} %", value);
  default:
    return value == std::floor(value) ? grouped(fmt::format("{:.0f}", value))
                                      : fmt::format("{:.3g}", value);
  }
}

std::string tick_text(unit counts, double value) {
  return without_needless_zeros(value_text(counts, value));
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns)
      lines.push_back(std::exchange(line, {}));
    if (!line.empty() && !word.empty()) line += ' ';
    line += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

} // namespace farcall::tool
