// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/copy/chunk_offer.hpp>
#include <farcall/copy/copy_plan.hpp>
#include <farcall/copy/pipelined_copy.hpp>
#include <farcall/copy/way_choice.hpp>

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

struct copy_state;

/// Least bytes of a copy for which a sleeping peer is woken to help.
inline constexpr std::uint64_t min_waking_copy = std::uint64_t{1} << 20;
/// Number of classes into which copies are divided by length. The first class is 128 KiB to 256
/// KiB, each next one is twice as long, and the last one is 8 MiB and more.
inline constexpr std::size_t copy_classes = 7;

/// Copies between ordinary memory of two nodes of one machine, on which both nodes work at the same
/// time. There are two strategies. In the first one, both ends use cross-memory attach, and each
/// end copies as many chunks as it can (chunk_offer). In the second one, which is not used for long
/// copies, both ends copy in and out of shared memory (pipelined_copies). The object measures which
/// strategy takes less time for copies of similar length, and chooses it. The peer helps while it
/// has no other work. Like the pipelined copies of MPI libraries over KNEM and CMA, with a receiver
/// that takes part.
class helped_copies {
 public:
  /// `owner` outlives it.
  explicit helped_copies(copy_state& owner) noexcept : owner_(owner) {}

  /// Makes the copy by one of the strategies in `plan`, which are by_rma, by_both_ends and by_ring.
  /// The copy is done on return: the memory is not accessed afterwards. Returns false if `m` cannot
  /// reach the memory or the peer has failed; a part of the bytes may then be copied.
  [[nodiscard]] bool make(rma_engine& m, node_id peer, const offered_copy& c,
                          const copy_plan& plan);

  /// True if a request for help can be sent to the peer without a wait. False for a sleeping peer,
  /// unless `wakes_peer` is true. Throws what a call throws.
  [[nodiscard]] bool can_ask(node_id peer, bool wakes_peer);

 private:
  [[nodiscard]] copy_result make_by_ring(rma_engine& m, node_id peer, const offered_copy& c);
  [[nodiscard]] copy_result make_by(copy_way way, rma_engine& m, node_id peer,
                                    const offered_copy& c);
  [[nodiscard]] copy_result make_by_both_ends(rma_engine& m, node_id peer,
                                              const offered_copy& wanted);
  /// Returns an unused offer; null if there is no memory for one.
  [[nodiscard]] chunk_offer* take_offer(node_id peer);
  void give_back(node_id peer, chunk_offer* offer);
  /// Asks the peer to help, if the request can be sent without a wait.
  void ask(node_id peer, chunk_offer& offer, std::uint64_t bytes);

  copy_state& owner_;
  std::array<std::array<way_choice, copy_classes>, 2>
      choices_;                           ///< choices by length: one row for gets, one for puts
  std::atomic<unsigned> lanes_opened_{0}; ///< attempts to open one
  std::mutex mutex_;
  /// For each peer, the offers that no copy uses at the moment; guarded by mutex_. The offer that
  /// was used last is reused first, because a request to serve it may still be on its way to the
  /// peer.
  std::map<node_id, std::vector<chunk_offer*>> idle_;
};

/// Handler by which the peer of a copy helps the copy's maker: takes and copies chunks of the offer
/// at address `offer` in memory of node `maker`.
void help_with_copy(node_id maker, std::uint64_t offer);
/// Returns the number of chunks and slots that this process has copied as the peer of other nodes'
/// copies.
[[nodiscard]] std::uint64_t chunks_copied_for_others() noexcept;
/// Adds to chunks_copied_for_others().
void note_chunks_for_others(std::uint64_t chunks) noexcept;

} // namespace farcall::detail
