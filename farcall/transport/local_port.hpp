#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/port.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace farcall {

/// A port for processes of this user on this machine, in the same network namespace: a Unix socket
/// without a file, which carries descriptors. Throws error.
[[nodiscard]] std::unique_ptr<port> open_local_port();

/// Connects to the port of that name as process `rank`. Waits for space in its queue. Throws error
/// where it cannot be there, as from another machine, and malformed_message for what is no name.
[[nodiscard]] port_connection connect_local_port(std::span<const std::byte> name, node_id rank,
                                                 time_point deadline);

} // namespace farcall
