// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/port.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace farcall {

/// Opens a port for processes of this user on this machine and in this network namespace. The port
/// is an abstract Unix socket, which carries descriptors. Throws error.
[[nodiscard]] std::unique_ptr<port> open_local_port();

/// Connects as process `rank` to the port with this name. Waits until `deadline` while the port's
/// queue of connections is full. Throws error if the port cannot be reached, for instance from
/// another machine. Throws malformed_message if `name` is no name of a port.
[[nodiscard]] port_connection connect_local_port(std::span<const std::byte> name, node_id rank,
                                                 time_point deadline);

} // namespace farcall
