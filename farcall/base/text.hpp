#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace farcall {

/// U+FFFD, which stands in place of what is no text.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// The bytes that a text of UTF-8 begins with and that stand for one character; 0 where they stand
/// for none. `text` is not empty.
[[nodiscard]] std::size_t character_bytes(std::string_view text);

enum class line_ends : std::uint8_t { replaced, kept };

/// UTF-8 without control characters, for any bytes: what is neither becomes U+FFFD, so that names
/// from damaged symbol tables break neither terminals nor files.
[[nodiscard]] std::string valid_text(std::string_view bytes, line_ends ends = line_ends::replaced);

/// The same in double quotes, with a backslash before quotes and backslashes, as strings of JSON
/// and labels of Prometheus are written.
[[nodiscard]] std::string quoted_text(std::string_view bytes);

/// The same for XML and HTML, between tags and in attributes: characters that mean something there
/// are escaped.
[[nodiscard]] std::string xml_text(std::string_view bytes, line_ends ends = line_ends::replaced);

/// Two digits for each byte, 0 to f.
[[nodiscard]] std::string hexadecimal(std::span<const std::byte> bytes);

} // namespace farcall
