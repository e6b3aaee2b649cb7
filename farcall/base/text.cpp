// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/text.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace farcall {

namespace {

struct code_point {
  std::uint32_t value = 0;
  std::size_t bytes = 0; ///< length of the character in bytes; 0 if the bytes are no character
};

code_point code_point_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(text[i] & 0xFF); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {.value = first, .bytes = 1};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {};
  std::uint32_t value = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    value = value << 6U | (byte(i) & 0x3FU);
  }
  static constexpr std::array<std::uint32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
  if (value < smallest.at(length) || value > 0x10FFFF) return {};
  return {.value = value, .bytes = length};
}

/// Returns false for control characters, surrogates, and characters that XML does not allow.
bool is_shown(std::uint32_t c) {
  return c >= 0x20 && (c < 0x7F || c > 0x9F) && (c < 0xD800 || c > 0xDFFF) && c != 0xFFFE &&
         c != 0xFFFF;
}

} // namespace

std::size_t character_bytes(std::string_view text) {
  const code_point next = code_point_at(text);
  return next.value >= 0xD800 && next.value <= 0xDFFF ? 0 : next.bytes;
}

std::string valid_text(std::string_view bytes, line_ends ends) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const code_point next = code_point_at(bytes);
    const std::size_t taken = next.bytes == 0 ? 1 : next.bytes;
    const bool stays =
        next.bytes > 0 && (is_shown(next.value) || (next.value == '\n' && ends == line_ends::kept));
    text += stays ? bytes.substr(0, taken) : replacement_character;
    bytes.remove_prefix(taken);
  }
  return text;
}

std::string quoted_text(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : valid_text(bytes)) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string xml_text(std::string_view bytes, line_ends ends) {
  std::string text;
  for (const char c : valid_text(bytes, ends)) {
    switch (c) {
    case '&':
      text += "&amp;";
      break;
    case '<':
      text += "&lt;";
      break;
    case '>':
      text += "&gt;";
      break;
    case '"':
      text += "&quot;";
      break;
    case '\'':
      text += "&#39;";
      break;
    default:
      text += c;
    }
  }
  return text;
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += digits[std::to_integer<std::size_t>(b >> 4)];
    text += digits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return text;
}

} // namespace farcall
