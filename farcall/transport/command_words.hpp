// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// Searches `text` from position `from` on for a character that is in `stops` and outside quotes.
/// Returns its position, or the length of the text if there is none.
[[nodiscard]] std::size_t find_unquoted(std::string_view text, std::size_t from,
                                        std::string_view stops);

/// Splits a command line into words at spaces, without a shell. Text in '…' or "…" is taken
/// literally. Throws setting_error if a quote is not closed.
[[nodiscard]] std::vector<std::string> command_words(std::string_view command);

/// Joins words into a command line, quoted so that command_words() returns the same words.
[[nodiscard]] std::string command_line(const std::vector<std::string>& words);

} // namespace farcall
