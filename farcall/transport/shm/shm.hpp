#pragma once

#include <farcall/memory/segment.hpp>
#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/transport.hpp>

#include <memory>
#include <vector>

/// Nodes on one machine: the two rings of a lane are the same memory on both sides, and cache
/// coherence is the transport.
namespace farcall::shm {

/// What a node holds of another one on this machine.
struct peer_memory {
  node_id id = no_node;
  segment receive_segment;
  std::vector<segment> windows; ///< memory its kernels allocate from, in the card's order
};

struct options {
  node_id self = 0;
  std::string machine;                 ///< ours; see card::machine
  receive_segment own_receive_segment; ///< outlives the transport
  std::vector<peer_memory> peers;
};

/// Lanes and copies to the other nodes of this machine. A peer's windows can be mapped, at the
/// addresses in its card, once it was admitted.
[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::shm
