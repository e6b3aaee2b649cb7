// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

namespace farcall::tool {

/// Returns the width in columns of the terminal that a descriptor refers to. Returns nothing for
/// files and pipes.
[[nodiscard]] std::optional<std::size_t> terminal_width(int descriptor);

} // namespace farcall::tool
