#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::shm {

/// The row of nodes on one machine.
[[nodiscard]] transport_entry entry();

} // namespace farcall::shm
