// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/ucx/peers.hpp>

#include <cstring>

namespace farcall::ucx {

void peer_table::admit(const card& peer) {
  entry* const there = known_.find_or_make(peer.id);
  if (there == nullptr) return;
  entry& e = *there;
  if (e.is_admitted.load(std::memory_order_relaxed)) return;
  const address its = decode_address(bytes_for(peer, "ucx"));
  const std::size_t window_bytes = peer.windows.size() * sizeof(memory_window);
  e.bytes = std::make_unique_for_overwrite<std::byte[]>(its.worker.size() + window_bytes);
  std::memcpy(e.bytes.get(), its.worker.data(), its.worker.size());
  if (window_bytes != 0) {
    std::memcpy(e.bytes.get() + its.worker.size(), peer.windows.data(), window_bytes);
  }
  e.address_bytes = static_cast<std::uint32_t>(its.worker.size());
  e.windows = static_cast<std::uint32_t>(peer.windows.size());
  e.key = its.key;
  // Release, paired with the acquire load in is_admitted(), so that a thread that sees the node as
  // admitted also sees the complete entry.
  e.is_admitted.store(true, std::memory_order_release);
}

used_peer& peer_table::use(node_id peer) {
  entry* const there = known_.find_or_make(peer);
  if (there == nullptr) throw malformed_message("there is no node with that number");
  entry& e = *there;
  if (!e.used) {
    auto made = std::make_unique<used_peer>();
    made->to.node = peer;
    used_.push_back(peer);
    e.used = std::move(made);
  }
  return *e.used;
}

connection& peer_table::connected(node_id peer) {
  if (!is_admitted(peer)) throw error(node_text(peer) + " cannot be reached by UCX", peer);
  connection& to = use(peer).to;
  if (to.is_gone || to.has_failed) {
    throw node_failed(node_text(peer) + " can no longer be reached: its connection has ended",
                      peer);
  }
  if (to.ep == nullptr) {
    const entry& e = *known_.find(peer);
    to.key = e.key;
    worker_->connect(to, {e.bytes.get(), e.address_bytes});
  }
  return to;
}

bool peer_table::is_inside(node_id peer, std::uint64_t address,
                           std::uint64_t bytes) const noexcept {
  if (!is_admitted(peer)) return false;
  const entry& e = *known_.find(peer);
  for (std::uint32_t i = 0; i < e.windows; ++i) {
    memory_window w;
    std::memcpy(&w, e.bytes.get() + e.address_bytes + i * sizeof w, sizeof w);
    const std::uint64_t offset = address - w.address;
    if (offset <= w.bytes && bytes <= w.bytes - offset) return true;
  }
  return false;
}

} // namespace farcall::ucx
