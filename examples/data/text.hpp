// SPDX-License-Identifier: Apache-2.0

/// \file
/// Texts of messages and numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace cg {

/// Bad input or usage; what() is one line without control characters.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string join(const auto&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Replaces control characters, and truncates to `longest` characters.
inline std::string printable(std::string_view text, std::size_t longest = std::string::npos) {
  std::string result{text.substr(0, longest)};
  std::ranges::replace_if(result, [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  return text.size() > longest ? result + "..." : result;
}
/// Quotes a text for a message. Not named quoted(), since ADL would find std::quoted.
inline std::string in_quotes(std::string_view text) {
  return join('\'', printable(text, 80), '\'');
}

/// Writes the shortest text that reads back as the same number.
inline std::string number_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
/// Reads all of a text as a number.
std::errc read_number(std::string_view text, auto& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_all = end == text.data() + text.size();
  return status == std::errc{} && !is_all ? std::errc::invalid_argument : status;
}

} // namespace cg
