// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport.hpp>

#include <memory>
#include <span>

/// Transport of a node that calls itself: lanes between threads of one process, in private memory.
namespace farcall::self {

struct options {
  node_id self = 0;
  std::uint32_t ring_bytes = 0;  ///< size of a ring; a power of two, at least min_ring
  std::span<doorbell> doorbells; ///< doorbells of the node, which outlive the transport
};

[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::self
