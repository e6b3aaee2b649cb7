// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/async/node.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/copy/copy_thread.hpp>
#include <farcall/copy/helped_copy.hpp>
#include <farcall/copy/pending_transfers.hpp>
#include <farcall/copy/pipelined_copy.hpp>
#include <farcall/job/members.hpp>
#include <farcall/memory/held_window.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::detail {

/// State that all copies of one node share. A part of the node's job. Any thread may use it.
struct copy_state final : private fork_observer {
  explicit copy_state(job_core& owner) : job(owner) { watch_forks(); }
  copy_state(const copy_state&) = delete;
  copy_state& operator=(const copy_state&) = delete;
  ~copy_state() override;

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

  /// Returns the memory [address, address + bytes) of another node, and keeps it mapped until the
  /// end of the job. Throws what find_mapped() throws, unless the memory was returned before.
  [[nodiscard]] std::byte* map_until_end(node_id node, std::uint64_t address, std::size_t bytes);

  job_core& job;
  std::chrono::milliseconds release_timeout{}; ///< timeout for freeing buffers
  copy_thread thread;
  pipelined_copies pipelined{*this};
  helped_copies helped{*this};
  pending_transfers late_puts; ///< puts that were given up at their deadlines
  pending_transfers in_order;  ///< copies for which ordered calls wait

 private:
  void after_fork_in_child() noexcept override;

  std::mutex kept_mutex_;
  std::vector<std::pair<node_id, held_window>> kept_; ///< guarded by kept_mutex_
};

/// Returns the state of the job's copies. Throws what usable() throws.
[[nodiscard]] inline copy_state& copies_of(job_core& job) { return *usable(job).copies; }

/// Memory of a node for use in place.
struct found_memory {
  std::byte* here;
  held_window window; ///< window with the memory; empty for memory of this node
};

/// Finds memory of a node for use in place. Throws node_failed, and error if the memory is not
/// shared with this process.
[[nodiscard]] found_memory find_mapped(const copy_state& copies, node_id node,
                                       std::uint64_t address, std::size_t bytes);

/// Returns the state of the copies of current_core(). Throws what current_core() throws.
[[nodiscard]] inline copy_state& current_copies() { return copies_of(current_core()); }

} // namespace farcall::detail
