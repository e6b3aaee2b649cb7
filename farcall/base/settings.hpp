// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {

/// Returns the value of an environment variable, or nullopt if it is unset or empty.
[[nodiscard]] std::optional<std::string> environment(const char* name);

/// Reads a whole non-negative number from `text`. If `text` is no such number, or the number is
/// outside [low, high], throws setting_error, which names `what` and the range.
[[nodiscard]] std::uint64_t parse_number(std::string_view text, const std::string& what,
                                         std::uint64_t low, std::uint64_t high);

/// Splits `text` at the separators. Empty pieces are kept.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// Reads the options of a URL's query part, "a=1&b=2", in order. A piece without '=' has an empty
/// value.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query);

} // namespace farcall
