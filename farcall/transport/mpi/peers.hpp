// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_table.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/mpi/engine.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace farcall::mpi {

/// Table of the nodes that have joined. For a node to which no message is sent, the table only
/// stores the rank, the tag, the key and the windows.
class peer_table {
 public:
  peer_table(std::size_t nodes, int ranks) : known_(nodes), ranks_(ranks) {}

  /// Stores a node that has joined. Called by one thread at a time. Throws malformed_message,
  /// std::bad_alloc.
  void admit(const card& peer);
  /// True if the node with number `peer` was admitted. False also if no node has this number.
  /// Called without the lock.
  [[nodiscard]] bool is_admitted(node_id peer) const noexcept {
    // Acquire, paired with the release store in admit(), so that the caller sees the complete entry
    // of an admitted node.
    const entry* const e = known_.find(peer);
    return e != nullptr && e->is_admitted.load(std::memory_order_acquire);
  }
  /// True if [address, address + bytes) is in a window of the peer. Called without the lock.
  [[nodiscard]] bool is_inside(node_id peer, std::uint64_t address,
                               std::uint64_t bytes) const noexcept;

  // ---- with the engine's lock

  /// Returns the object of the node `peer`, which need not be admitted yet. The first call makes
  /// the object, which stays at its address as long as the table lives. Throws std::bad_alloc.
  [[nodiscard]] connection& use(node_id peer);
  /// Returns the object of the peer, or null if this process has not used that peer so far.
  [[nodiscard]] connection* find(node_id peer) noexcept {
    entry* const e = known_.find(peer);
    return e != nullptr ? e->used.get() : nullptr;
  }
  /// Returns the object of the peer, and makes it ready for sending messages to the peer. Throws
  /// error.
  [[nodiscard]] connection& connected(node_id peer);
  void for_each_used(const std::function<void(message_peer&)>& f) {
    for (const node_id n : used_)
      f(*known_.find(n)->used);
  }

 private:
  struct entry {
    std::unique_ptr<memory_window[]> windows;
    std::uint64_t key = 0;
    std::uint32_t window_count = 0;
    std::int32_t rank = 0;
    std::int32_t tag = 0;
    std::atomic<bool> is_admitted{false};
    std::unique_ptr<connection> used;
  };

  node_table<entry> known_;
  std::vector<node_id> used_;
  int ranks_;
};

} // namespace farcall::mpi
