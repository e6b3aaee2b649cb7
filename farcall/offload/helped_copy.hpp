#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/offload/chunk_offer.hpp>
#include <farcall/offload/pipelined_copy.hpp>
#include <farcall/offload/way_choice.hpp>

#include <array>
#include <atomic>
#include <cstddef>
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
inline constexpr std::uint64_t shortest_helped_copy = std::uint64_t{128} << 10;
/// From so many bytes on they do by attach, too.
inline constexpr std::uint64_t shortest_copy_from_both_ends = std::uint64_t{512} << 10;
/// From so many bytes on they do even if the peer sleeps.
inline constexpr std::uint64_t shortest_waking_copy = std::uint64_t{1} << 20;
/// From so many bytes on always by attach: which way is faster depends on the size of the pages,
/// which nobody knows, and there by more than slots gain on small ones.
inline constexpr std::uint64_t shortest_copy_by_attach_only = std::uint64_t{16} << 20;
/// 128 KiB to 256 KiB, and so on, to 8 MiB and more.
inline constexpr std::size_t copy_classes = 7;

/// Copies between ordinary memory of two nodes of a machine by both of them at once: each by
/// cross-memory attach, as much as it gets done (chunk_offer), or in and out of memory that both
/// share (pipelined_copies), whichever takes less time for that length, if it is not long. The peer
/// takes part while it has nothing else to do. As the pipelined copies of MPI libraries over KNEM
/// and CMA, with the receiver taking part.
class helped_copies {
 public:
  /// `job` outlives it.
  explicit helped_copies(job_state& job) noexcept : job_(job) {}

  /// Copies by `m`, in this thread and at the peer. Done on return, and nobody touches the memory
  /// then. False where that is not possible, or when the peer has failed; a part may be copied.
  [[nodiscard]] bool make(rma_engine& m, node_id peer, const offered_copy& c);

  /// Whether a request for help can be sent to the peer without waiting. Throws what a call does.
  [[nodiscard]] bool can_ask(node_id peer, bool wakes_peer);

 private:
  [[nodiscard]] copy_result make_by_ring(rma_engine& m, node_id peer, const offered_copy& c);
  [[nodiscard]] copy_result make_by_attach(rma_engine& m, node_id peer, const offered_copy& wanted);
  /// An offer that nobody uses; null when there is no memory for one.
  [[nodiscard]] chunk_offer* take_offer(node_id peer);
  void give_back(node_id peer, chunk_offer* offer);
  /// Has the peer come and help, if that can be had without waiting.
  void ask(node_id peer, chunk_offer& offer, std::uint64_t bytes);

  job_state& job_;
  std::array<std::array<way_choice, copy_classes>, 2> choices_; ///< of gets, and of puts
  std::atomic<unsigned> lanes_opened_{0};                       ///< attempts
  std::mutex mutex_;
  /// By peer. The last one given back first: the peer may be on its way to it.
  std::map<node_id, std::vector<chunk_offer*>> idle_; ///< mutex_
};

/// Called at the peer: helps with what the offer, in memory of `maker`, says.
void help_with_copy(node_id maker, std::uint64_t offer);
/// How many chunks this process has copied for others.
[[nodiscard]] std::uint64_t chunks_copied_for_others() noexcept;
/// This process has copied so many more.
void note_chunks_for_others(std::uint64_t chunks) noexcept;

} // namespace farcall::detail
