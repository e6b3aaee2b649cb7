// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/zeroed_array.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall {
struct call_context;
} // namespace farcall

namespace farcall::am {

class engine;
class lane_table;

/// Lanes of one thread, at most one per node. When the thread ends, another thread gets its set of
/// lanes. If all doorbells of this node for calling threads are taken, several threads share a set.
class thread_lanes {
 public:
  /// Makes a set of lanes to nodes whose places are below `nodes`.
  thread_lanes(std::uint32_t with_doorbell, std::size_t nodes, thread_counters& counts)
      : doorbell(with_doorbell), counters(counts), by_place_(nodes), used_(nodes) {}

  std::uint32_t doorbell;
  std::uint32_t threads = 1; ///< number of threads that use the set; guarded by the engine
  thread_counters& counters;

  /// Returns the set's lane to `node`, or null if the set has none. The lane belongs to the sets of
  /// several threads if `node` had no lane left when this set needed one.
  [[nodiscard]] requester* find(node_id node) const noexcept {
    return node < by_place_.size() ? find_early(node) : find_later(node);
  }
  /// Returns what find() returns if the epoch of the node is 0, and otherwise null. Takes fewer
  /// instructions.
  [[nodiscard]] requester* find_early(node_id node) const noexcept {
    // A number below the size is a place, whose entry has lanes to this node only. Acquire, paired
    // with the release store in set(). If several threads share the set, another one of them may
    // have called set().
    return node < by_place_.size()
               ? std::atomic_ref<requester*>(by_place_[node]).load(std::memory_order_acquire)
               : nullptr;
  }

  /// Allocates memory that set() needs for a lane to `node`, whose place must be below the number
  /// given to the constructor. Call with the lane table's mutex held. Throws std::bad_alloc.
  void reserve(node_id node);
  /// Makes `l` the set's lane to `node`, for which reserve() was called. Call with the lane table's
  /// mutex held.
  void set(node_id node, requester* l) noexcept;
  /// Removes the set's lane to `node`, so that find() returns null. Call with the lane table's
  /// mutex held.
  void remove(node_id node) noexcept;

  /// Removes lanes that have failed from the lanes that for_each() visits. find() still returns
  /// them. Call with the lane table's mutex held, and only if one thread uses the set.
  void drop_failed() noexcept;

  /// Calls f(lane) for each lane, in the order of first use, except lanes that drop_failed() has
  /// removed. Iterates over used_ rather than over all nodes, because a job may have many nodes of
  /// which a thread calls few.
  template <class F>
  void for_each(F f) const {
    // Acquire, paired with the release store in set(), so that the entries of used_ below `used`
    // are visible.
    const std::size_t used = used_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < used; ++i) {
      // Relaxed, because any node that was stored there will do: find() checks the number.
      const node_id node = used_entry(i).load(std::memory_order_relaxed);
      if (requester* const l = find(node)) f(*l);
    }
  }

 private:
  using lane_array = zeroed_array<requester*>;

  [[nodiscard]] std::atomic_ref<node_id> used_entry(std::size_t i) const noexcept {
    return std::atomic_ref<node_id>(used_[i]);
  }
  /// Returns the entry of a node, which is accessed as an atomic reference. Returns null if
  /// reserve() was not called for the node.
  [[nodiscard]] requester** entry_of(node_id node) const noexcept;
  /// Does the work of find() for a node whose epoch is not 0.
  [[nodiscard, gnu::cold]] requester* find_later(node_id node) const noexcept;
  void note_used(node_id node) noexcept;

  /// Lanes to the nodes of epoch 0, by place; accessed by entry_of().
  lane_array by_place_;
  /// Lanes to nodes of later epochs, by place, each to the latest such node that the set has used.
  /// Made by the first reserve() for such a node, and then constant.
  lane_array later_;
  std::atomic<bool> has_later_{false}; ///< true once `later_` was made
  /// Nodes to which this set has, or had, a lane, in the order of first use, without nodes that
  /// drop_failed() has removed, and at most one of each place. Only the first used_count_ elements
  /// are valid; accessed by used_entry().
  zeroed_array<node_id> used_;
  std::atomic<std::size_t> used_count_{0};
};

/// The set of lanes that the calling thread used last, and the number of the engine to which the
/// set belongs. `serial` is 0 if there is none.
struct cached_lanes {
  std::uint64_t serial = 0;
  thread_lanes* own = nullptr;
};

/// The interface of an engine for code that makes calls, such as futures. Every client is an
/// engine. Any thread may use it. In a forked child, the functions of a client throw forked, and
/// its noexcept functions do nothing.
class client {
 public:
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  [[nodiscard]] node_id self() const noexcept { return self_; }
  /// Returns the context that the layer above, which knows the functions, gave to the engine.
  [[nodiscard]] const call_context* context() const noexcept { return context_; }

  /// True if this process is a forked child of the process that made the engine.
  [[nodiscard]] bool is_forked() const noexcept { return is_forked_; }
  /// Throws forked if is_forked(). Throws error if this is the client that replaces clients of
  /// ended jobs.
  void require_own_process() const;

  /// Returns the calling thread's lane to `node`. The first call opens the lane, which may wait
  /// until a closed lane is free. If all lanes are taken, returns another thread's lane, which is
  /// then shared. Throws timeout, and error if the node cannot be reached or has no lane left.
  [[nodiscard]] requester& lane_to(node_id node, time_point deadline = no_deadline) {
    if (cached_.serial == serial_) [[likely]] {
      // Do not use find(), because the call of a function in it would cost each call of lane_to() a
      // few instructions. The function open_own_lane() finds lanes to nodes of later epochs.
      if (requester* const l = cached_.own->find_early(node); l != nullptr && !l->is_lost())
          [[likely]]
        return *l;
    }
    return open_own_lane(node, deadline);
  }
  /// Returns the lane that lane_to() would return if it is open already, else null.
  [[nodiscard]] requester* find_lane(node_id node) const noexcept {
    if (cached_.serial == serial_) [[likely]] {
      if (requester* const l = cached_.own->find(node); l != nullptr && !l->is_lost()) [[likely]]
        return l;
    }
    return nullptr;
  }

  /// Opens a lane for the caller alone. At `node`, a separate worker serves the lane, unless
  /// engine_options::has_one_worker is true. Waits for a closed lane if the node has no lane left.
  /// Throws node_failed, timeout, and error if all lanes are in use.
  [[nodiscard]] requester& open_lane(node_id node, time_point deadline = no_deadline);
  /// Gives back a lane that open_lane() has returned. The lane is closed when its last call has
  /// ended.
  void retire(requester& l) noexcept;

  /// Allocates a block of this node's heap for arguments that do not fit a record. Throws
  /// out_of_memory with a text that names this node.
  [[nodiscard]] std::byte* allocate_block(std::uint64_t bytes);
  void release_block(std::byte* block) noexcept;

  /// Returns a new id for a stoppable call, unique among the calls of this node.
  [[nodiscard]] std::uint64_t next_stoppable_id() noexcept {
    // Relaxed, because the id only has to be unique and orders no other memory access.
    return next_stoppable_id_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Sends `node` a request to stop the call with the number `id`. Never waits; the caller may hold
  /// a lane's guard.
  void stop_call(node_id node, std::uint64_t id) noexcept;
  /// Tells `node` that a stopped call has ended, so that `node` can forget the call's id.
  void forget_call(node_id node, std::uint64_t id) noexcept;

  /// Waits for space for a request in a full lane; while waiting, receives replies and serves
  /// requests. Is called and returns with the lane's guard held, but releases the guard while it
  /// waits. Returns null if the lane has failed. Throws timeout, with the guard released.
  [[nodiscard]] std::byte* wait_for_space(requester& l, std::uint32_t bytes, time_point deadline);

  /// Waits until `c` is ready, and serves requests while it waits. Returns false if the deadline
  /// has passed.
  [[nodiscard]] bool wait(completion& c, time_point deadline = no_deadline);

  /// Waits until the call `c` is ready, without serving requests in that time. A waiting handler
  /// thereby keeps its thread, like in a blocking system call. Suitable only for calls that the
  /// target can serve without a request to this node. Returns false if the deadline has passed.
  [[nodiscard]] bool wait_alone(pending_call& c, time_point deadline = no_deadline);

  /// Receives the replies that have arrived, and runs their continuations. Never blocks. Used by a
  /// future's test().
  void poll(completion& c);

 protected:
  client(node_id self, std::uint64_t serial, const call_context* context) noexcept
      : self_(self), serial_(serial), context_(context) {}
  ~client() = default;

  // Cache of the calling thread's lanes. It is defined in the library, so that all shared objects
  // of a program use one instance, whatever their symbol visibility. A forked child clears the
  // cache of the thread that forked, so that lane_to() need not check for a fork.
  static constinit thread_local cached_lanes cached_;

  const node_id self_;
  const std::uint64_t serial_;
  const call_context* const context_;
  /// True in a forked child. The child sets the flag at the fork, while it has only one thread.
  bool is_forked_ = false;
  std::atomic<std::uint64_t> next_stoppable_id_{1};

 private:
  friend class lane_table; // uses cached_

  [[nodiscard]] requester& open_own_lane(node_id node, time_point deadline);
};

} // namespace farcall::am
