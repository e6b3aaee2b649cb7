#pragma once

#include <cstddef>
#include <optional>

namespace farcall::tool {

/// Columns of the terminal that a file descriptor is of; nothing for files and pipes.
[[nodiscard]] std::optional<std::size_t> terminal_width(int descriptor);

} // namespace farcall::tool
