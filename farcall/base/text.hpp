// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace farcall {

/// The character U+FFFD, which replaces bytes that are no valid text.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// Returns the size in bytes of the first character of a UTF-8 text; 0 if the bytes are no
/// character. `text` is not empty.
[[nodiscard]] std::size_t character_bytes(std::string_view text);

enum class line_ends : std::uint8_t { replaced, kept };

/// Makes valid UTF-8 text without control characters from any bytes. Invalid bytes and control
/// characters become U+FFFD, so that names from damaged symbol tables harm neither terminals nor
/// files.
[[nodiscard]] std::string valid_text(std::string_view bytes, line_ends ends = line_ends::replaced);

/// Returns the result of valid_text() in double quotes, with a backslash before quotes and
/// backslashes, as in JSON strings and Prometheus labels.
[[nodiscard]] std::string quoted_text(std::string_view bytes);

/// Returns the result of valid_text() for XML and HTML, between tags and in attributes; special
/// characters are escaped.
[[nodiscard]] std::string xml_text(std::string_view bytes, line_ends ends = line_ends::replaced);

/// Returns two hexadecimal digits, 0 to f, for each byte.
[[nodiscard]] std::string hexadecimal(std::span<const std::byte> bytes);

} // namespace farcall
