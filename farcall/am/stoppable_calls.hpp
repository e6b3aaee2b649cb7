// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace farcall::am {

/// The stoppable calls on this node: calls that have begun, and stops that arrived before their
/// call had begun. A call is identified by its caller's node and by the number that the caller's
/// node gave to it. Any thread may use the table.
class stoppable_calls final : public counted, private fork_observer {
 public:
  /// Throws std::bad_alloc.
  stoppable_calls() { watch_forks(); }
  ~stoppable_calls() override { unwatch_forks(); }

  /// Begins a call. Returns null if the call was stopped before it began and must not run. Throws
  /// std::bad_alloc.
  [[nodiscard]] counted_ptr<stop_state> begin(node_id origin, std::uint64_t id);
  /// Removes a call from the table after it has replied.
  void end(const stop_state& call) noexcept;

  /// Stops a call. If the call has begun, runs its listeners on the calling thread. Otherwise keeps
  /// the call from beginning, until forget().
  void stop(node_id origin, std::uint64_t id) noexcept;
  /// Drops the stop that is kept for a call, if there is one. The caller's node asks for this when
  /// the call has ended, because a stop that arrives after the call's end would otherwise be kept
  /// for good.
  void forget(node_id origin, std::uint64_t id) noexcept;

  /// Removes and returns the running calls of a node that has failed, ordered by their numbers, and
  /// drops the stops that were kept for its other calls. The caller must stop the returned calls.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::vector<counted_ptr<stop_state>> drop_calls_of(node_id origin);

  /// Returns how many calls and stops the table contains.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  /// Maximum size of stopped_. The limit protects this node from peers that never tell it to forget
  /// a call.
  static constexpr std::size_t max_stopped = std::size_t{1} << 20;

  using name = std::pair<node_id, std::uint64_t>;
  using place = counted_ptr<stop_state>;

  /// Returns the head of the hash bucket for a call. Call with the mutex held, like find() and
  /// grow().
  [[nodiscard]] place& first_of(node_id origin, std::uint64_t id) noexcept;
  /// Returns the place in the table that refers to the call. If the call is unknown, returns the
  /// null place at the end of its bucket.
  [[nodiscard]] place& find(node_id origin, std::uint64_t id) noexcept;
  void grow();

  // Locks the table during a fork, because a handler may fork and then return or reply in the
  // child, where the table must be consistent.
  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;
  template <class F>
  void for_each_begun(const F& f) noexcept;

  mutable std::mutex mutex_;
  std::vector<place> begun_; ///< hash table of lists of calls; its size is a power of two
  std::size_t size_ = 0;     ///< number of calls in begun_
  std::set<name> stopped_;   ///< calls that were stopped before they began
};

} // namespace farcall::am
