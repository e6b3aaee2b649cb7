#pragma once

#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

/// Nodes on one machine: the two rings of a lane are the same memory on both sides, and cache
/// coherence is the transport.
namespace farcall::shm {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;               ///< numbers of nodes are below it
  std::string machine;                 ///< ours; see card::machine
  receive_segment own_receive_segment; ///< outlives the transport
  std::vector<memory_file> files;      ///< see transport_site::memory_files
};

/// Lanes and copies to the other nodes of this machine, once their memory was taken: what the host
/// hands out, or what two nodes that the host is not beside find in each other's open files. A
/// peer's windows can be mapped, at the addresses in its card, once it was admitted.
[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::shm
