#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::am {

class engine;

/// Lanes of one thread, at most one per node. Goes to another thread when its own ends. Where
/// doorbells have run out, several threads use the same.
class thread_lanes {
 public:
  /// For nodes with numbers below `nodes`.
  thread_lanes(std::uint32_t with_doorbell, std::size_t nodes, thread_counters& counts)
      : doorbell(with_doorbell), counters(counts), by_node_(nodes), used_(nodes), lanes_(by_node_) {
  }

  std::uint32_t doorbell;
  std::uint32_t threads = 1; ///< that use it; guarded by the engine
  thread_counters& counters;

  /// The lane to `node`; null where there is none. Where the node has none left, another thread's.
  [[nodiscard]] requester* find(node_id node) const noexcept {
    // Acquire; partner: the release store in set(), on another thread where several use the same.
    return node < lanes_.size() ? lanes_[node].load(std::memory_order_acquire) : nullptr;
  }

  /// With the engine's mutex held. The number is that of a node.
  void set(node_id node, requester* l) noexcept;

  /// f(lane) for each, in the order of their first use: a job has room for many nodes, of which a
  /// thread calls few.
  template <class F>
  void for_each(F f) const {
    // Acquire; partner: the release store in set().
    const std::size_t used = used_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < used; ++i) {
      if (requester* const l = find(used_[i])) f(*l);
    }
  }

 private:
  std::vector<std::atomic<requester*>> by_node_;
  std::vector<node_id> used_; ///< nodes to which there was a lane: the first used_count_
  std::atomic<std::size_t> used_count_{0};
  std::span<std::atomic<requester*>> lanes_; ///< by_node_; its size takes no arithmetic
};

/// What a thread remembers of the engine that it used last; `serial` 0 is none.
struct cached_lanes {
  std::uint64_t serial = 0;
  thread_lanes* own = nullptr;
};

/// The calling side of an engine: what code that makes calls, and futures, see of it. Every client
/// is an engine. Any thread may use it. In a child of a fork all of it throws forked, but for what
/// is noexcept, which does nothing.
class client {
 public:
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  [[nodiscard]] node_id self() const noexcept { return self_; }
  /// What the layers below gave the engine.
  [[nodiscard]] const void* context() const noexcept { return context_; }

  /// This process is a child of the engine's, by a fork.
  [[nodiscard]] bool is_forked() const noexcept { return is_forked_; }
  /// Throws forked there.
  void require_own_process() const;

  /// The calling thread's lane to `node`, opened on first use, which may wait for a lane that was
  /// closed; another thread's where all are taken. Throws error when the node cannot be reached or
  /// has no lane left, and timeout.
  [[nodiscard]] requester& lane_to(node_id node, time_point deadline = no_deadline) {
    if (requester* const l = find_lane(node); l != nullptr) [[likely]]
      return *l;
    return open_own_lane(node, deadline);
  }
  /// The same, where it is open; else null.
  [[nodiscard]] requester* find_lane(node_id node) const noexcept {
    if (cached_.serial == serial_) [[likely]] {
      if (requester* const l = cached_.own->find(node); l != nullptr && !l->is_lost()) [[likely]]
        return l;
    }
    return nullptr;
  }

  /// A lane of its own, served by a worker of its own on the other side. Where the node has none
  /// left, waits for one that was closed. Throws node_failed, error when all are open, and timeout.
  [[nodiscard]] requester& open_lane(node_id node, time_point deadline = no_deadline);
  /// Gives a lane from open_lane() back; it is closed when its last call has ended.
  void retire(requester& l) noexcept;

  /// A block of this node's heap, for arguments that do not fit a record. Throws out_of_memory that
  /// names this node.
  [[nodiscard]] std::byte* allocate_block(std::uint64_t bytes);
  void release_block(std::byte* block) noexcept;

  /// Names a call that can be stopped, among all that this node makes.
  [[nodiscard]] std::uint64_t next_stoppable_id() noexcept {
    // Relaxed: it is unique, and orders nothing.
    return next_stoppable_id_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Has `node` told that the call with that id is stopped. Never waits; a lane's guard may be
  /// held.
  void stop_call(node_id node, std::uint64_t id) noexcept;
  /// The same, once such a call has ended: its id will not be used any more.
  void forget_call(node_id node, std::uint64_t id) noexcept;

  /// Space for a request in a lane that has none: pumps, serves and waits. Called and returns with
  /// the lane's guard held, but releases it meanwhile. Null when the lane has failed. Throws
  /// timeout, with the guard released.
  [[nodiscard]] std::byte* wait_for_space(requester& l, std::uint32_t bytes, time_point deadline);

  /// What wait() does first, at less cost: spins for the reply to a call, for as long as a short
  /// one takes. True when it came; false too where the thread has more to do while it waits.
  [[nodiscard]] bool spin_for_reply(completion& c, reply_count expected) noexcept;

  /// Waits until `c` is ready, serving requests meanwhile. False when the deadline passed.
  [[nodiscard]] bool wait(completion& c, time_point deadline = no_deadline);

  /// Waits until the call `c` is ready, and does nothing else: a handler that waits keeps its
  /// thread to itself, as in a system call that blocks. For calls that are served without the
  /// caller's help. False when the deadline passed.
  [[nodiscard]] bool wait_alone(pending_call& c, time_point deadline = no_deadline);

  /// Takes replies that are there and runs what waits for them; never blocks. For test().
  void poll(completion& c);

 protected:
  client(node_id self, std::uint64_t serial, const void* context) noexcept
      : self_(self), serial_(serial), context_(context) {}
  ~client() = default;

  // Defined in the library: one for all parts of a program, whatever they hide. A child of a fork
  // has none for the thread that forked, so that lane_to() need not ask.
  static constinit thread_local cached_lanes cached_;

  const node_id self_;
  const std::uint64_t serial_;
  const void* const context_;
  bool is_forked_ = false; ///< changes in a child, while it has one thread
  std::atomic<std::uint64_t> next_stoppable_id_{1};

 private:
  [[nodiscard]] requester& open_own_lane(node_id node, time_point deadline);
};

} // namespace farcall::am
