// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/lane_place.hpp>
#include <farcall/am/responder.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/transport.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace farcall::am {

class worker;

/// Batch: requests of one lane that a worker serves one after the other, on one stack.
struct lane_turn {
  worker* by;
  responder* lane;
  unsigned most;              ///< maximum number of requests in the batch; 0 ends it
  lane_turn* outer = nullptr; ///< batch that is being served further down on the same stack
  bool has_waited = false;
  bool is_pinned = false; ///< true if the waiting handler has pinned the lane to its worker
};

/// A thread that runs handlers, and the lanes that it serves. Only that thread may call the
/// functions, unless their comments say otherwise.
///
/// The workers of a node share its lanes. Each lane has a *home*: the worker that its opener named
/// and notifies. An idle worker may take over a lane in which requests wait. It gives the lane back
/// when it is idle and the home is not busy. A handler that waits stays on its thread.
class worker {
 public:
  /// Makes a worker that serves up to `max_lanes` lanes at a time. If `shares_lanes` is true, other
  /// workers may take its lanes, and handlers that have waited hold a lock while they reply.
  worker(engine& e, std::uint32_t index, doorbell& wakes, std::size_t max_lanes,
         bool shares_lanes = false);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();

  /// Returns the worker whose handlers the calling thread runs, or null for other threads.
  [[nodiscard]] static worker* current() noexcept { return current_; }
  /// Makes `w`, which may be null, the worker of the calling thread.
  static void make_current(worker* w) noexcept { current_ = w; }

  [[nodiscard]] engine& owner() const noexcept { return *engine_; }
  [[nodiscard]] bool is_part_of(const engine& e) const noexcept { return engine_ == &e; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  [[nodiscard]] worker_counters& counters() const noexcept { return counters_; }

  /// Adds a lane. Returns false if the worker has too many. Any thread may call it, but only one at
  /// a time.
  bool add(transport& via, const endpoint& c);

  /// Serves up to a batch of requests of each lane and returns how many it has served. If `nested`
  /// is true, serves at most one request, because the calling thread waits for something else that
  /// it must poll again.
  unsigned turn(bool nested) noexcept;
  /// Serves requests like turn(false), but visits only lanes in which requests wait, and sends no
  /// replies that have waited for space. Suitable for a worker with few lanes.
  unsigned turn_where_requests_are() noexcept;
  /// Refuses the next request of a lane. Returns false if there is none.
  bool refuse_one() noexcept;

  /// Polls the lane drivers of all lanes of this worker.
  void progress() noexcept;
  void arm() noexcept;

  /// True if a request can be served. Any thread may call it.
  [[nodiscard]] bool has_work() const noexcept;
  /// True if replies are still to come from handlers that wait, or that have returned without a
  /// reply.
  [[nodiscard]] bool defers() const noexcept;
  /// True if replies wait for space. The worker may then sleep only briefly, because the peer does
  /// not notify when there is space. Any thread may call it.
  [[nodiscard]] bool is_blocked() const noexcept;

  /// Reclaims closed and cut lanes, except lanes whose handlers wait. Call outside handlers.
  /// Returns how many lanes the worker still has.
  std::size_t reclaim() noexcept;

  /// True if all lanes of this worker were closed and all their records were read. Meant for a
  /// worker that gets no more lanes.
  [[nodiscard]] bool is_closed() const noexcept;

  /// Cuts the lanes of a peer that has failed. Any thread may call it, but not concurrently with
  /// add().
  void cut(node_id peer) noexcept;

  // ---- sharing of lanes; with the acceptor's mutex held, unless a comment says otherwise ----

  [[nodiscard]] bool shares_lanes() const noexcept { return shares_lanes_; }

  /// Notes whether the worker sleeps or has ended. This function and is_asleep() may be called
  /// without the mutex; any thread may call is_asleep().
  void set_asleep(bool asleep) noexcept {
    // Relaxed, because the value is a hint. The order that matters is made by the fence in
    // worker_group::is_awake().
    is_asleep_.store(asleep, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_asleep() const noexcept {
    return is_asleep_.load(std::memory_order_relaxed);
  }
  /// Makes the worker one that threads of the program act as; see pulled_worker.
  void set_pulled() noexcept { is_pulled_ = true; }
  /// True if requests may wait in a lane because the worker is busy elsewhere. A worker of a single
  /// lane that runs a handler of this lane delays no other request. Any thread may call it, without
  /// the mutex.
  [[nodiscard]] bool may_delay_requests() const noexcept {
    return lanes_here() > (is_pulled_ ? 0U : 1U);
  }
  /// Notes that the worker has polled its lanes and found no request. If it has many lanes, it has
  /// polled only some of them. Call without the mutex.
  void note_idle() noexcept {
    idle_turns_.store(idle_turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Returns how many lanes the worker serves now. Any thread may call it, without the mutex.
  [[nodiscard]] std::uint32_t lanes_here() const noexcept {
    return lanes_here_.load(std::memory_order_relaxed);
  }
  /// True if other workers serve lanes of which this worker is the home. Any thread may call it,
  /// without the mutex.
  [[nodiscard]] bool lends() const noexcept { return lent_.load(std::memory_order_relaxed) != 0; }

  /// The two kinds of callers of is_overdue(): an idle worker that looks for a lane to take over,
  /// and the watching thread.
  enum class asker : unsigned char { worker, watch };
  /// True if this worker has been busy since the last call of is_overdue() with the same `who`. The
  /// worker counts as busy if it has not called note_idle() in that time. Any thread may call it.
  [[nodiscard]] bool is_overdue(asker who) noexcept;
  /// Returns the place of a lane that another worker could take over from this worker. The next
  /// request of that lane was found waiting at or before `since`, by this call or an earlier one.
  /// `now` is the time of this call. Each call checks only a few lanes, and continues behind the
  /// lanes of the last call. Any thread may call it.
  [[nodiscard]] std::optional<std::uint32_t> find_waiting(time_point now,
                                                          time_point since) noexcept;
  /// Takes over the lane at `place` of the worker `from`. Returns false if that worker has entered
  /// the lane or has pinned it, or if this worker has no free place.
  bool take(worker& from, std::uint32_t place) noexcept;
  /// Gives lanes that this worker has taken over back to their homes. If `all` is false, gives back
  /// only lanes whose homes sleep or have been idle since the takeover.
  void give_back(bool all) noexcept;

  /// Adds the doorbells on which the worker sleeps: its own doorbell, and the doorbells of the
  /// homes of the lanes that it has taken over. Call without the mutex.
  void add_doorbells(std::vector<doorbell*>& to) const;

  /// Marks the calling handler, if there is one, as waiting. As long as this object exists, the
  /// handler's worker serves other requests, also of the same lane. Must be on the handler's stack.
  /// Use without the mutex.
  class pause {
   public:
    pause() noexcept;
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;
    ~pause();

   private:
    lane_turn* turn_;
  };

 private:
  /// Content of a place of this worker. A place may have a lane whose home is this worker, even
  /// while another worker serves that lane. It may have a lane that this worker has taken over, or
  /// be empty.
  struct entry {
    transport* via = nullptr;
    std::unique_ptr<responder> lane; ///< the lane; null if it was taken over from another home
    bool is_lent = false;
    worker* home = nullptr; ///< home of the lane if it was taken over; else null
    std::uint32_t home_place = 0;
    /// Value of the home's idle_turns_ when the lane was taken over. If the home has a higher value
    /// now, it has been idle since.
    std::uint64_t home_was_idle = 0;

    [[nodiscard]] bool is_free() const noexcept { return lane == nullptr && home == nullptr; }
  };

  /// A lane that has had requests recently.
  struct busy_lane {
    std::uint32_t place = 0;
    std::uint32_t idle_turns = 0;
  };

  /// Serves up to `most` requests of the lane at `place`. Returns how many it has served.
  unsigned serve(std::uint32_t place, unsigned most, const lane_driver*& moved) noexcept;
  unsigned serve_next_idle(std::uint32_t places, unsigned most, const lane_driver*& moved) noexcept;
  void begin_turn(lane_turn& t) noexcept;
  void end_turn(lane_turn& t) noexcept;
  void leave(lane_turn& t) noexcept;
  void come_back(lane_turn& t) noexcept;
  /// Calls `what(lane)` for each lane until a call returns true. Returns the result of the last
  /// call.
  template <class What>
  bool any_lane(const What& what) const noexcept;
  /// Returns a free place for a lane, or an empty optional if there is none. Call with the mutex
  /// held. Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::uint32_t> free_place();
  void fill(std::uint32_t place, responder* lane) noexcept;
  void give_back(std::uint32_t place) noexcept;

  static inline constinit thread_local worker* current_ = nullptr;

  engine* engine_;
  std::uint32_t index_;
  doorbell* wakes_;
  worker_counters& counters_;
  bool shares_lanes_;
  bool is_pulled_ = false;
  /// Lanes, indexed by place. The places below `places_` are in use, though some of them may be
  /// empty, and other places do not exist. Only the thread of a lane's home destroys the lane.
  lane_places<responder> lanes_;
  std::atomic<std::uint32_t> places_{0};
  /// Number of lanes that this worker serves. Changes only with the mutex held, like lent_ and
  /// taken_.
  std::atomic<std::uint32_t> lanes_here_{0};
  std::atomic<std::uint32_t> lent_{0};
  std::atomic<std::uint32_t> taken_{0}; ///< number of lanes of other homes that this worker serves
  std::atomic<bool> is_asleep_{false};
  lane_in_use<responder> in_use_;
  /// Number of polls without a request; changed by the worker's thread only.
  std::atomic<std::uint64_t> idle_turns_{0};
  /// For each kind of caller of is_overdue(), the value of idle_turns_ at its last call; guarded by
  /// the acceptor's mutex.
  std::array<std::uint64_t, 2> idle_turns_seen_{};
  /// Place that find_waiting() has checked last; guarded by the acceptor's mutex.
  std::uint32_t next_polled_ = 0;
  static constexpr std::uint32_t max_busy = 16;

  /// Busy lanes, which are polled in each iteration. The first busy_count_ elements are valid.
  std::array<busy_lane, max_busy> busy_{};
  std::uint32_t busy_count_ = 0;
  std::uint32_t next_busy_ = 0; ///< if busy_ is full, index of the entry that was replaced last
  /// Place that was polled last when all places are polled in turn.
  std::uint32_t next_idle_ = 0;
  /// Contents of the places; guarded by the acceptor's mutex.
  std::vector<entry> entries_;
};

} // namespace farcall::am
