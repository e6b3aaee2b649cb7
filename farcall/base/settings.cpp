// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/text.hpp>

#include <charconv>
#include <cstdlib>

namespace farcall {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::uint64_t parse_number(std::string_view text, const std::string& what, std::uint64_t low,
                           std::uint64_t high) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, status] = std::from_chars(text.data(), end, value);
  if (text.empty() || status != std::errc{} || stopped != end || value < low || value > high) {
    throw setting_error(what + " is \"" + valid_text(text) + "\"; give a whole number from " +
                        std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (;;) {
    const auto at = text.find(separator);
    pieces.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> options;
  if (query.empty()) return options;
  for (const std::string& piece : split(query, '&')) {
    const auto equals = piece.find('=');
    options.emplace_back(piece.substr(0, equals),
                         equals == std::string::npos ? "" : piece.substr(equals + 1));
  }
  return options;
}

} // namespace farcall
