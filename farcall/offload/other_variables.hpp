#pragma once

#include <span>
#include <string_view>

namespace farcall {

/// Variables of the environment that are no settings of a program that uses the library, and yet
/// have a reader in this project: a program must not take them for settings with a wrong name. A
/// '*' at the end stands for any letters.
[[nodiscard]] std::span<const std::string_view> other_variables() noexcept;

} // namespace farcall
