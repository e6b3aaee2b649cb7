// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/copy/chunk_offer.hpp>
#include <farcall/copy/copy_ring.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace farcall::detail {

struct copy_state;

struct copy_result {
  bool is_made;
  bool is_helped; ///< false if the peer has copied too small a part, so that the time of the copy
                  ///< must not be used to compare strategies
};

/// Copies between ordinary memory of two nodes of a machine by way of slots in memory that both
/// nodes share (copy_ring). The node with the source fills a slot while the other node empties the
/// previous slot. Needs no cross-memory attach, which the system may refuse, and avoids its cost
/// for each page. The peer helps while it has no other work.
class pipelined_copies {
 public:
  /// A strategy that copies without the ring, used for parts that the peer does not take.
  struct other_way {
    /// Copies a chunk. Returns false if the chunk cannot be copied. May throw.
    std::function<bool(offered_copy::chunk)> copy;
    std::uint64_t part_bytes; ///< bytes to copy at a time
    bool needs_peer;          ///< true if this strategy also needs the peer
  };
  /// `owner` outlives it.
  explicit pipelined_copies(copy_state& owner) noexcept : owner_(owner) {}

  /// Copies the bytes. The copy is done on return: the memory is not accessed afterwards. `other`
  /// copies the parts that the peer does not take. In the result, is_made is false if `other` could
  /// not copy a part, or the peer has failed; some bytes may have been copied in this case. Throws
  /// what `other` throws.
  [[nodiscard]] copy_result make(node_id peer, const offered_copy& c, const other_way& other);

 private:
  class one_copy;
  struct ring_end {
    copy_ring* ring;
    std::uint64_t posted = 0; ///< number of the next slot to post
    /// number of slots that the peer has finished, as far as the maker has seen
    std::uint64_t ended_by_peer = 0;
    bool has_come = true;     ///< false if the last wait for the peer to serve the ring was in vain
    bool is_given_up = false; ///< true if the peer must not be asked any more, because it has
                              ///< refused memory that this node can copy
  };

  [[nodiscard]] std::optional<ring_end> take_ring(node_id peer);
  void give_back(node_id peer, const ring_end& end);
  /// Asks the peer to serve the ring, if the request can be sent without a wait. Returns false if
  /// the peer was not asked.
  bool ask(node_id peer, copy_ring& ring, bool wakes_peer);

  copy_state& owner_;
  std::atomic<std::uint64_t> copies_{0};
  std::mutex mutex_;
  std::map<node_id, std::vector<ring_end>> idle_; ///< guarded by mutex_
  std::size_t rings_ = 0;                         ///< guarded by mutex_
};

/// Handler by which the peer of a copy helps the copy's maker: serves the ring at address `ring` in
/// memory of node `maker`.
void help_by_ring(node_id maker, std::uint64_t ring);

} // namespace farcall::detail
