#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {

/// Value of an environment variable, or nothing when it is unset or empty.
[[nodiscard]] std::optional<std::string> environment(const char* name);

/// Whole non-negative number in `text`; throws setting_error that names `what` otherwise.
/// Values outside [low, high] are refused with the range in the message.
[[nodiscard]] std::uint64_t parse_number(std::string_view text, const std::string& what,
                                         std::uint64_t low, std::uint64_t high);

/// Pieces of `text` between separators; empty pieces are kept.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// Options of a URL's query part, "a=1&b=2", in order. A piece without '=' has an empty value.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query);

} // namespace farcall
