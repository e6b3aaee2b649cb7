// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace farcall {

/// Returns the names of environment variables that parts of this project use, but that are not
/// settings of a program with the library. The library therefore does not warn of them as misspelt
/// settings. A '*' at the end of a name stands for any characters.
[[nodiscard]] std::span<const std::string_view> other_variables() noexcept;

} // namespace farcall
