#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/offload/chunk_offer.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace farcall {
class rma_engine;
}

namespace farcall::detail {

struct job_state;

/// Copies of at least so many bytes take less time if the peer makes a part of them.
inline constexpr std::uint64_t shortest_helped_copy = std::uint64_t{512} << 10;
/// From so many bytes on they do even if it sleeps.
inline constexpr std::uint64_t shortest_waking_copy = std::uint64_t{1} << 20;

/// Copies between ordinary memory of two nodes of a machine by both of them at once: what one
/// processor can copy by cross-memory attach, two can copy twice. The peer takes chunks while it
/// has nothing else to do. As the pipelined copies of MPI libraries over KNEM and CMA, with the
/// receiver taking part.
class helped_copies {
 public:
  /// `job` outlives it.
  explicit helped_copies(job_state& job) noexcept : job_(job) {}

  /// Copies by `m`, in this thread and at the peer. Done on return, and nobody touches the memory
  /// then. False where that is not possible, or when the peer has failed; a part may be copied.
  [[nodiscard]] bool make(rma_engine& m, node_id peer, const offered_copy& c);

 private:
  /// An offer that nobody uses; null when there is no memory for one.
  [[nodiscard]] chunk_offer* take_offer(node_id peer);
  void give_back(node_id peer, chunk_offer* offer);
  /// Has the peer come and help, if that can be had without waiting.
  void ask(node_id peer, chunk_offer& offer, std::uint64_t bytes);

  job_state& job_;
  std::atomic<unsigned> lanes_opened_{0}; ///< attempts
  std::mutex mutex_;
  /// By peer. The last one given back first: the peer may be on its way to it.
  std::map<node_id, std::vector<chunk_offer*>> idle_; ///< mutex_
};

/// Called at the peer: helps with what the offer, in memory of `maker`, says.
void help_with_copy(node_id maker, std::uint64_t offer);
/// How many chunks this process has copied for others.
[[nodiscard]] std::uint64_t chunks_copied_for_others() noexcept;

} // namespace farcall::detail
