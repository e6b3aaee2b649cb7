#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::self {

/// The row of calls of a node to itself.
[[nodiscard]] transport_entry entry();

} // namespace farcall::self
