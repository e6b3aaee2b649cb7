// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace farcall::tcp {

/// One of the two connections that a forwarder joins.
struct forwarded_end {
  std::unique_ptr<stream> connection;
  std::span<const std::byte> first; ///< bytes that are sent to this end before all others
};

/// Forwards the bytes of each connection to the other, until both have ended, for two nodes that
/// cannot reach each other. Reads only as many bytes as the other side takes, and does not inspect
/// them. The loop owns both connections until they have ended. Any thread may call this. Throws
/// error.
void forward_streams(event_loop& loop, forwarded_end a, forwarded_end b);

} // namespace farcall::tcp
