#pragma once

#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/transport.hpp>

#include <cstddef>
#include <memory>
#include <string>

/// Nodes on one machine: the two rings of a lane are the same memory on both sides, and cache
/// coherence is the transport.
namespace farcall::shm {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;               ///< numbers of nodes are below it
  std::string machine;                 ///< ours; see card::machine
  receive_segment own_receive_segment; ///< outlives the transport
};

/// Lanes and copies to the other nodes of this machine, once their memory was taken. A peer's
/// windows can be mapped, at the addresses in its card, once it was admitted.
[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::shm
