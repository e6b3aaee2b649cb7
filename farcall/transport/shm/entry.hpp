// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::shm {

/// Returns the table row of the transport between nodes on one machine.
[[nodiscard]] transport_entry entry();

} // namespace farcall::shm
