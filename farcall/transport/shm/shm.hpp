// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

/// Transport between nodes on one machine. The two rings of a lane are in memory that both nodes
/// share, and cache coherence moves the bytes.
namespace farcall::shm {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;               ///< limit of the node numbers: all are lower
  std::string machine;                 ///< this machine; see card::machine
  receive_segment own_receive_segment; ///< outlives the transport
  std::vector<memory_file> files;      ///< see transport_site::memory_files
};

/// Makes the transport to the other nodes of this machine. The host sends each of these nodes the
/// memory of the others. On a machine without the host, the nodes open each other's memory files
/// instead. Once a peer was admitted, its windows can be mapped at the addresses in its card.
[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::shm
