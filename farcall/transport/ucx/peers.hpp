// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_table.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/ucx/address.hpp>
#include <farcall/transport/ucx/worker.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace farcall::ucx {

/// A node with which this one has exchanged messages.
struct used_peer {
  connection to;
};

/// Table of the nodes that have joined. For a node to which no message is sent, the table only
/// stores the address, the key and the windows.
class peer_table {
 public:
  peer_table(worker& by, std::size_t nodes) : worker_(&by), known_(nodes) {}

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

  // ---- with the worker's lock

  /// Returns the object of the node `peer`, which need not be admitted yet. The first call makes
  /// the object, which stays at its address as long as the table lives. Throws std::bad_alloc.
  [[nodiscard]] used_peer& use(node_id peer);
  /// Returns the object of the peer, or null if this process has not used that peer so far.
  [[nodiscard]] used_peer* find(node_id peer) noexcept {
    entry* const e = known_.find(peer);
    return e != nullptr ? e->used.get() : nullptr;
  }
  template <class F>
  void for_each_used(F f) {
    for (const node_id n : used_)
      f(*known_.find(n)->used);
  }

  /// Returns the object of the peer, and connects to the peer first if this was not done before.
  /// Throws error.
  [[nodiscard]] connection& connected(node_id peer);

 private:
  struct entry {
    std::unique_ptr<std::byte[]> bytes; ///< the worker's address, followed by the windows
    std::uint32_t address_bytes = 0;
    std::uint32_t windows = 0;
    std::uint64_t key = 0;
    std::unique_ptr<used_peer> used;
    std::atomic<bool> is_admitted{false};
  };

  worker* worker_;
  node_table<entry> known_;
  std::vector<node_id> used_;
};

} // namespace farcall::ucx
