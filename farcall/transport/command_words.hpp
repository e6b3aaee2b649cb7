#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

/// First of `stops` outside quotes at or after `from`, or the end of the text.
[[nodiscard]] std::size_t find_unquoted(std::string_view text, std::size_t from,
                                        std::string_view stops);

/// The words of a command line: what stands between spaces, and what stands in '…' or "…" as it is.
/// No shell reads it. Throws setting_error where a quote is not closed.
[[nodiscard]] std::vector<std::string> command_words(std::string_view command);

/// The command line of which command_words() makes these words.
[[nodiscard]] std::string command_line(const std::vector<std::string>& words);

} // namespace farcall
