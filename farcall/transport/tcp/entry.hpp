#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::tcp {

/// The row of nodes on other machines, which servers start.
[[nodiscard]] transport_entry entry();

} // namespace farcall::tcp
