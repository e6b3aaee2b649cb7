// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farcall::tool {

/// Returns the width in columns of the terminal that a descriptor refers to. Returns nothing for
/// files and pipes.
[[nodiscard]] std::optional<std::size_t> terminal_width(int descriptor);

/// True if texts for a descriptor should have colours: the descriptor refers to a terminal other
/// than TERM=dumb, and the variable NO_COLOR is unset or empty.
[[nodiscard]] bool has_colours(int descriptor);

/// Roles of texts that have colours.
enum class style : std::uint8_t { heading, name, good, warning, failure };

/// Returns the text with the control sequences of its role around it.
[[nodiscard]] std::string styled_text(style as, std::string_view text);

/// Returns the text for a descriptor, with control sequences only if has_colours().
[[nodiscard]] std::string styled_for(int descriptor, style as, std::string_view text);

} // namespace farcall::tool
