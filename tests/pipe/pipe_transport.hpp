// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

/// A minimal transport for tests, and an example for authors of transports: each lane is a pair of
/// pipes. The opener sends the pipes' ends to the peer through the host.
namespace farcall::pipes {

/// Returns the transport's row of the table of transports, for targets like "pipe" and "pipe:4".
[[nodiscard]] transport_entry entry();

} // namespace farcall::pipes
