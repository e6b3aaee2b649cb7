// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/tcp/own_listener.hpp>
#include <farcall/transport/tcp/remote_target.hpp>

#include <cstddef>
#include <memory>
#include <span>

/// The host's port, at which processes on other machines join the job. Such processes were started
/// by something other than the host.
namespace farcall::tcp {

/// Opens the host's side of the port: processes connect to `listener`, and prove that they know the
/// job's key.
[[nodiscard]] std::unique_ptr<port> open_rank_port(std::shared_ptr<event_loop> loop,
                                                   std::shared_ptr<own_listener> listener,
                                                   target_request job);

/// Connects as process `rank` to the port with this name, and blocks until the connection is made.
/// Throws error, and malformed_message if the name is invalid.
[[nodiscard]] port_connection connect_rank_port(std::span<const std::byte> name, node_id rank,
                                                time_point deadline);

} // namespace farcall::tcp
