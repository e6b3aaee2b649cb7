#pragma once

#include <farcall/transport/transport.hpp>

#include <memory>
#include <span>

/// A node that calls itself: lanes between threads of one process, in private memory.
namespace farcall::self {

struct options {
  node_id self = 0;
  std::uint32_t ring_bytes = 0;  ///< a power of two, at least smallest_ring
  std::span<doorbell> doorbells; ///< the node's; outlive the transport
};

[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::self
