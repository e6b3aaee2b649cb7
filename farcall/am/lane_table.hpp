// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/client.hpp>
#include <farcall/am/continuation.hpp>
#include <farcall/am/doorbell_layout.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace farcall::am {

class engine;
class peer_table;
struct engine_options;

/// The lanes that a node has opened. Each thread has a set with at most one lane per node. There
/// are also separately opened lanes, and retired lanes, which stay until their last call has ended.
/// When a thread ends, its set goes to another thread. Any thread may use the table.
class lane_table {
 public:
  /// Makes an empty table. `local` is the doorbell to notify when a thread gets its first lanes.
  lane_table(engine& owner, const engine_options& options, peer_table& peers,
             const doorbell_layout& doorbells, doorbell& local) noexcept;
  lane_table(const lane_table&) = delete;
  lane_table& operator=(const lane_table&) = delete;
  /// Destroys the lanes. Pending calls that still have a holder must have failed before. The lanes
  /// of such calls outlive the table, so that the holders can give the calls back.
  ~lane_table();

  // ---- functions for the lanes of the calling thread ----

  /// Returns the calling thread's set of lanes. The first call of a thread assigns a set to the
  /// thread. Throws error if the node has no doorbell left for calling threads.
  [[nodiscard]] thread_lanes& own();
  /// Returns the calling thread's set, or null if the thread has not used one yet.
  [[nodiscard]] thread_lanes* find_own() const noexcept {
    return client::cached_.serial == serial_ ? client::cached_.own : nullptr;
  }
  /// Returns the calling thread's counters, which the first call allocates. Returns null if no
  /// doorbell or memory is left.
  [[nodiscard]] thread_counters* counters_of_thread() noexcept;
  /// Opens the calling thread's lane to `node`, as described at client::lane_to(). Throws what
  /// lane_to() throws.
  [[nodiscard]] requester& open_own(node_id node, time_point deadline);

  /// Receives the replies that have arrived for calls of the calling thread. Returns true if there
  /// were any.
  bool pump_own() noexcept {
    const thread_lanes* const own = find_own();
    return own != nullptr && pump(*own);
  }
  [[nodiscard]] bool has_own_replies(bool arming) noexcept;
  /// Adds the doorbells that are notified of replies to the calling thread's calls.
  void add_own_doorbells(std::vector<doorbell*>& to) const;

  // ---- other lanes ----

  /// Opens a lane for the caller alone; see client::open_lane(). Throws what open_lane() throws.
  [[nodiscard]] requester& open(node_id node, time_point deadline);
  /// Opens a lane for stops of calls. The lane receives no replies, and at `node` a separate worker
  /// serves it. Does not wait. Throws what open() throws.
  [[nodiscard]] requester& open_for_stops(node_id node);
  /// Returns the lane to `node` that the fewest threads use, among the lanes of other threads.
  /// Returns null if there is none.
  [[nodiscard]] requester* share(node_id node) noexcept;
  /// Gives up a lane, which is closed as soon as its last call has ended.
  void retire(requester& l) noexcept;
  /// Closes the retired lanes whose calls have ended. Returns the continuations that the caller
  /// must run.
  [[nodiscard]] continuation_list reap() noexcept;
  /// Opens a lane. Returns an empty optional if the caller must wait until a closed lane is free.
  /// Throws what open() throws.
  [[nodiscard]] std::optional<endpoint> try_open(node_id node, const lane_shape& shape);

  // ---- all lanes ----

  /// Receives replies to calls of all threads. Returns true if there were any. Appends the
  /// continuations that the caller must run to `due`.
  bool pump_all(continuation_list& due) noexcept;
  [[nodiscard]] bool has_replies() noexcept;
  void arm() noexcept;
  /// Adds the doorbells of all threads that make calls, and returns for how many sets of lanes
  /// these are.
  [[nodiscard]] std::uint32_t add_doorbells(std::vector<doorbell*>& to);
  /// Returns how many sets of lanes exist. Each set has a doorbell of its own. Threads that start
  /// when all doorbells are taken share the existing sets.
  [[nodiscard]] std::uint32_t sets_made() const noexcept {
    return sets_made_.load(std::memory_order_seq_cst);
  }
  /// Returns the mutex that guards all(), settled() and requester::thread_uses. A lane is not
  /// removed from the table as long as a pending call of the lane is taken.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  /// Returns all lanes whose nodes have not failed.
  [[nodiscard]] const std::vector<std::unique_ptr<requester>>& all() const noexcept {
    return lanes_;
  }
  /// Returns the positions in the request rings of the lanes that settle() has visited. For each
  /// lane, this is the position behind its last fence, or 0 before the first fence. The entry of a
  /// lane is removed when the lane is closed.
  [[nodiscard]] std::map<const requester*, std::uint64_t>& settled() noexcept { return settled_; }

  /// True if any lane of this node, opened by it or by a peer, has had a lane driver, or if one of
  /// its transports has one.
  [[nodiscard]] bool has_drivers() const noexcept {
    return has_drivers_.load(std::memory_order_relaxed);
  }
  void note_driver() noexcept { has_drivers_.store(true, std::memory_order_relaxed); }

  // ---- failure ----

  /// Notes that a lane to `node` has lost its connection, and calls engine_options::lane_lost on
  /// the completion thread. Call with the lane's guard held.
  void note_lost(node_id node) noexcept;
  /// Ends all calls to failed nodes. Appends the continuations that the caller must run to `due`.
  void end_calls_to(const std::vector<node_id>& failed, continuation_list& due) noexcept;
  /// Makes new calls to the node throw node_failed with `why`. Calls in flight continue, and calls
  /// that other threads are about to send may still be sent.
  void refuse_calls_to(node_id node, const std::string& why);

 private:
  struct sets_of_thread;

  [[nodiscard]] requester& open_on(node_id node, std::uint32_t doorbell, bool own_worker,
                                   time_point deadline);
  [[nodiscard]] bool is_lane_to_come(node_id node);
  static bool pump(const thread_lanes& own) noexcept;
  [[nodiscard]] thread_lanes& take_set();
  void give_back(thread_lanes& set) noexcept;
  /// Returns a lane to `node` whose thread has ended, or null if there is none.
  [[nodiscard]] requester* take_idle(node_id node) noexcept;
  /// Closes an idle lane to `node` that threads do not share. Returns false if there is none.
  [[nodiscard]] bool retire_idle(node_id node) noexcept;
  /// Removes the lane to `node` from a thread's set of lanes if the lane has lost its connection.
  void drop_lost(thread_lanes& own, node_id node) noexcept;

  engine& owner_;
  const std::uint64_t serial_; ///< of the owner
  const engine_options& options_;
  peer_table& peers_;
  const doorbell_layout& doorbells_;
  doorbell& local_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<requester>> lanes_;
  /// Lanes whose nodes have failed. Kept until the end, because threads may still use them.
  std::vector<std::unique_ptr<requester>> failed_;
  std::vector<std::unique_ptr<thread_lanes>> sets_;
  std::vector<thread_lanes*> idle_sets_;
  std::vector<requester*> retired_;
  std::map<const requester*, std::uint64_t> settled_;
  std::uint32_t next_doorbell_;
  std::atomic<std::uint32_t> sets_made_{0};
  std::atomic<std::uint32_t> next_worker_{0};
  std::atomic<std::uint32_t> next_lane_doorbell_{0};
  std::atomic<bool> has_drivers_{false};
};

} // namespace farcall::am
