#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/offload/chunk_offer.hpp>
#include <farcall/offload/copy_ring.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace farcall::detail {

struct job_state;

/// Copies of fewer bytes are as quick by calls.
inline constexpr std::uint64_t shortest_pipelined_copy = std::uint64_t{512} << 10;

struct copy_result {
  bool is_made;
  bool is_helped; ///< by the peer
};

/// Copies between ordinary memory of two nodes of a machine, in and out of slots that both share
/// (copy_ring): one end's processor fills a slot while the other's empties the one before. Needs
/// nothing of the system, which may refuse cross-memory attach, and does not pay its price for each
/// page. The peer takes part while it has nothing else to do.
class pipelined_copies {
 public:
  /// How to copy without the peer's taking part in the ring.
  struct other_way {
    /// Copies a part of the copy; false where that is not possible. May throw.
    std::function<bool(offered_copy::chunk)> copy;
    std::uint64_t part_bytes; ///< so much at a time
    bool needs_peer;          ///< the peer has to do something for it, too
  };
  /// `job` outlives it.
  explicit pipelined_copies(job_state& job) noexcept : job_(job) {}

  /// Copies; done on return, and nobody touches the memory then. What the peer does not take is
  /// copied by `other`. Not made where that was not possible, or when the peer has failed; a part
  /// may be copied. Throws what `other` throws.
  [[nodiscard]] copy_result make(node_id peer, const offered_copy& c, const other_way& other);

 private:
  class one_copy;
  struct ring_end {
    copy_ring* ring;
    std::uint64_t posted = 0;        ///< as the number of the next
    std::uint64_t ended_by_peer = 0; ///< as far as the maker has seen
    bool has_come = true;            ///< the peer, when it was asked the last time
    bool is_given_up = false;        ///< the peer is not to be asked: it can copy nothing
  };

  [[nodiscard]] std::optional<ring_end> take_ring(node_id peer);
  void give_back(node_id peer, const ring_end& end);
  /// Has the peer come, if that can be had without waiting; false when it was not asked.
  bool ask(node_id peer, copy_ring& ring, bool wakes_peer);

  job_state& job_;
  std::atomic<std::uint64_t> copies_{0};
  std::mutex mutex_;
  std::map<node_id, std::vector<ring_end>> idle_; ///< mutex_
  std::size_t rings_ = 0;                         ///< mutex_
};

/// Called at the peer: takes part in the copies by that ring, in memory of `maker`.
void help_by_ring(node_id maker, std::uint64_t ring);

} // namespace farcall::detail
