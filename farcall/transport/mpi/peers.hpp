#pragma once

#include <farcall/transport/card.hpp>
#include <farcall/transport/mpi/engine.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace farcall::mpi {

/// Nodes that have joined. Of one that is never used there is where it is, its windows, and nothing
/// else.
class peer_table {
 public:
  peer_table(std::size_t nodes, int ranks) : known_(nodes), ranks_(ranks) {}

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

  // ---- with the engine's lock

  /// Of any node, also one that is not admitted yet; the same for as long as the table lives.
  /// Throws std::bad_alloc.
  [[nodiscard]] connection& use(node_id peer);
  /// Null for a peer that is not used.
  [[nodiscard]] connection* find(node_id peer) noexcept {
    return peer < known_.size() ? known_[peer].used.get() : nullptr;
  }
  /// One that can be sent to. Throws error.
  [[nodiscard]] connection& connected(node_id peer);
  void for_each_used(const std::function<void(message_peer&)>& f) {
    for (const node_id n : used_)
      f(*known_[n].used);
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

  std::vector<entry> known_;
  std::vector<node_id> used_;
  int ranks_;
};

} // namespace farcall::mpi
