// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// Returns the lines of a text, each of at most `width` columns unless a word is longer. A line
/// break in the text begins a new line.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// Returns the text that --help prints for the last command of the path: its forms, its purpose,
/// its options or commands, and examples. Lines have at most `width` columns unless a word is
/// longer. With `has_colours`, the text contains the control sequences of terminals.
[[nodiscard]] std::string help_text(const command_path& path, std::size_t width, bool has_colours);

} // namespace farcall::tool
