#pragma once

#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace farcall::tcp {

/// One end of what is passed on.
struct forwarded_end {
  std::unique_ptr<stream> connection;
  std::span<const std::byte> first; ///< it is sent this before anything else
};

/// Passes on what comes from either connection to the other, until both have ended: for two nodes
/// that cannot reach each other. Takes in no more than the other side takes. Lives on the reactor
/// until then, and looks at what passes nowhere. Any thread. Throws error.
void forward_streams(reactor& loop, forwarded_end a, forwarded_end b);

} // namespace farcall::tcp
