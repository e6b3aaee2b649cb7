// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/mpi/peers.hpp>

#include <algorithm>

namespace farcall::mpi {

void peer_table::admit(const card& peer) {
  entry* const there = known_.find_or_make(peer.id);
  if (there == nullptr) return;
  entry& e = *there;
  if (e.is_admitted.load(std::memory_order_relaxed)) return;
  const address its = decode_address(bytes_for(peer, "mpi"));
  if (its.rank >= static_cast<std::uint32_t>(ranks_)) {
    throw malformed_message("a node's MPI address has a rank that the communicator has not");
  }
  e.windows = std::make_unique<memory_window[]>(peer.windows.size());
  std::copy(peer.windows.begin(), peer.windows.end(), e.windows.get());
  e.window_count = static_cast<std::uint32_t>(peer.windows.size());
  e.key = its.key;
  e.rank = static_cast<std::int32_t>(its.rank);
  e.tag = static_cast<std::int32_t>(its.tag);
  // Release, paired with the acquire load in is_admitted(), so that a thread that sees the node as
  // admitted also sees the complete entry.
  e.is_admitted.store(true, std::memory_order_release);
}

bool peer_table::is_inside(node_id peer, std::uint64_t address,
                           std::uint64_t bytes) const noexcept {
  if (!is_admitted(peer)) return false;
  const entry& e = *known_.find(peer);
  return std::any_of(e.windows.get(), e.windows.get() + e.window_count,
                     [&](const memory_window& w) {
                       const std::uint64_t offset = address - w.address;
                       return offset <= w.bytes && bytes <= w.bytes - offset;
                     });
}

connection& peer_table::use(node_id peer) {
  entry* const there = known_.find_or_make(peer);
  if (there == nullptr) throw malformed_message("there is no node with that number");
  entry& e = *there;
  if (!e.used) {
    auto made = std::make_unique<connection>();
    made->node = peer;
    used_.push_back(peer);
    e.used = std::move(made);
  }
  return *e.used;
}

connection& peer_table::connected(node_id peer) {
  if (!is_admitted(peer)) throw error(node_text(peer) + " cannot be reached by MPI", peer);
  connection& to = use(peer);
  if (to.is_gone || to.has_failed) {
    throw node_failed(node_text(peer) + " can no longer be reached: its connection has ended",
                      peer);
  }
  if (to.rank < 0) {
    const entry& e = *known_.find(peer);
    to.key = e.key;
    to.tag = e.tag;
    to.rank = e.rank;
  }
  return to;
}

} // namespace farcall::mpi
