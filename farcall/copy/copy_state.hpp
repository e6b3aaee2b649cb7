// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/async/node.hpp>
#include <farcall/copy/copy_thread.hpp>
#include <farcall/copy/helped_copy.hpp>
#include <farcall/copy/pending_transfers.hpp>
#include <farcall/copy/pipelined_copy.hpp>
#include <farcall/job/members.hpp>

#include <chrono>

namespace farcall::detail {

/// State that all copies of one node share. A part of the node's job. Any thread may use it.
struct copy_state {
  explicit copy_state(job_core& owner) noexcept : job(owner) {}

  [[nodiscard]] am::engine& engine() const noexcept { return am::engine_of(*job.client); }
  [[nodiscard]] const farcall::members& members() const noexcept { return *job.members; }

  /// Returns the memory domain of a node, or null. A node has one if this process allocates its
  /// memory. Throws what members::meet() throws.
  [[nodiscard]] memory_domain* domain_of(node_id node) const;

  /// Waits for calls that are left of emulated puts to the peer, after these puts have ended at
  /// their deadlines. Returns false if `deadline` passes before the calls have ended.
  [[nodiscard]] bool settle_late_puts(node_id peer, time_point deadline);
  /// Waits until no put that has ended at its deadline can change memory of the peer any more,
  /// whether an emulated put or a put of the RMA engine. Returns false if `deadline` passes before.
  [[nodiscard]] bool settle_puts(node_id peer, time_point deadline);

  /// Waits, at most for `duration`, for large copies and their continuations. The continuations
  /// must run before the job ends, because they may post messages.
  void finish(std::chrono::milliseconds duration);

  job_core& job;
  std::chrono::milliseconds release_timeout{}; ///< timeout for freeing buffers
  copy_thread thread;
  pipelined_copies pipelined{*this};
  helped_copies helped{*this};
  pending_transfers late_puts; ///< puts that were given up at their deadlines
  pending_transfers in_order;  ///< copies for which ordered calls wait
};

/// Returns the state of the job's copies. Throws what usable() throws.
[[nodiscard]] inline copy_state& copies_of(job_core& job) { return *usable(job).copies; }

/// Returns the state of the copies of current_core(). Throws what current_core() throws.
[[nodiscard]] inline copy_state& current_copies() { return copies_of(current_core()); }

} // namespace farcall::detail
