#pragma once

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

/// A node that something was sent to, or that has sent something.
struct used_peer {
  connection to;
};

/// Nodes that have joined. Of one that is never used there is its address and nothing else.
class peer_table {
 public:
  peer_table(worker& by, std::size_t nodes) : worker_(&by), known_(nodes) {}

  /// One thread at a time. Throws malformed_message, std::bad_alloc.
  void admit(const card& peer);
  /// Without the lock. False for numbers of no node.
  [[nodiscard]] bool is_admitted(node_id peer) const noexcept {
    // Acquire; partner: the release store in admit().
    return peer < known_.size() && known_[peer].is_admitted.load(std::memory_order_acquire);
  }
  /// Without the lock. Whether [address, address + bytes) lies in a window of the peer's.
  [[nodiscard]] bool is_inside(node_id peer, std::uint64_t address,
                               std::uint64_t bytes) const noexcept;

  // ---- with the worker's lock

  /// Of any node, also one that is not admitted yet; the same for as long as the table lives.
  /// Throws std::bad_alloc.
  [[nodiscard]] used_peer& use(node_id peer);
  /// Null for a peer that is not used.
  [[nodiscard]] used_peer* find(node_id peer) noexcept {
    return peer < known_.size() ? known_[peer].used.get() : nullptr;
  }
  template <class F>
  void for_each_used(F f) {
    for (const node_id n : used_)
      f(*known_[n].used);
  }

  /// One that can be sent to. Throws error.
  [[nodiscard]] connection& connected(node_id peer);

 private:
  struct entry {
    std::unique_ptr<std::byte[]> bytes; ///< the worker's address, then the windows
    std::uint32_t address_bytes = 0;
    std::uint32_t windows = 0;
    std::uint64_t key = 0;
    std::unique_ptr<used_peer> used;
    std::atomic<bool> is_admitted{false};
  };

  worker* worker_;
  std::vector<entry> known_;
  std::vector<node_id> used_;
};

} // namespace farcall::ucx
