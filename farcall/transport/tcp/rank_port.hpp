#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/tcp/own_listener.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/remote_target.hpp>

#include <cstddef>
#include <memory>
#include <span>

/// How processes on other machines that something else than the host has started come to it.
namespace farcall::tcp {

/// The host's side: they come to `listener` and prove that they know the job's secret.
[[nodiscard]] std::unique_ptr<port> open_rank_port(std::shared_ptr<reactor> loop,
                                                   std::shared_ptr<own_listener> listener,
                                                   target_request job);

/// Connects to the port of that name as process `rank`. Blocks until then. Throws error, and
/// malformed_message for what is no name.
[[nodiscard]] port_connection connect_rank_port(std::span<const std::byte> name, node_id rank,
                                                time_point deadline);

} // namespace farcall::tcp
