#pragma once

#include <farcall/transport/transport_entry.hpp>

/// A transport as small as one can be: every lane is a pair of pipes, whose ends the opener sends
/// to the peer by way of the host. For tests, and to read before one writes another transport.
namespace farcall::pipes {

/// The row: "pipe", "pipe:4".
[[nodiscard]] transport_entry entry();

} // namespace farcall::pipes
