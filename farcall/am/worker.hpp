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

/// Requests of one lane that a worker serves one after the other, on one stack.
struct lane_turn {
  worker* by;
  responder* lane;
  unsigned most;              ///< requests
  lane_turn* outer = nullptr; ///< further down on the stack
  bool has_waited = false;
  bool is_pinned = false; ///< the lane, by the handler that waits
};

/// A thread that runs handlers, and the lanes that it serves. Unless told otherwise, what is here
/// is for that thread.
///
/// The workers of a node share its lanes. Each lane has a *home*, the worker that its opener named
/// and notifies. Another that has nothing to do may take it while requests wait there, and gives it
/// back when it is idle and the home is not busy. Handlers that wait stay where they are.
class worker {
 public:
  /// For up to `most_lanes` lanes at a time. With `shares_lanes`, other workers may take them, and
  /// their handlers reply with a lock once they have waited.
  worker(engine& e, std::uint32_t index, doorbell& wakes, std::size_t most_lanes,
         bool shares_lanes = false);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();

  [[nodiscard]] engine& owner() const noexcept { return *engine_; }
  [[nodiscard]] bool is_part_of(const engine& e) const noexcept { return engine_ == &e; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] doorbell& wakes() const noexcept { return *wakes_; }
  [[nodiscard]] worker_counters& counters() const noexcept { return counters_; }

  /// Adds a lane. False when there are too many. Any thread, one at a time.
  bool add(transport& via, const endpoint& c);

  /// Serves up to a batch of requests of each lane; returns how many. With `nested`, a single
  /// request: the caller waits for something and polls again.
  unsigned turn(bool nested) noexcept;
  /// As turn(false), at the least cost where there are no requests: lanes that have none are left
  /// alone, and nothing is done about replies that wait for space. For few lanes.
  unsigned turn_where_requests_are() noexcept;
  /// Replies to a request that it is not run; false when there is none.
  bool refuse_one() noexcept;

  /// Moves bytes for all lanes; see lane_driver.
  void progress() noexcept;
  void arm() noexcept;

  /// There is a request that can be served. Any thread.
  [[nodiscard]] bool has_work() const noexcept;
  /// Handlers that wait, or have returned, will reply later.
  [[nodiscard]] bool defers() const noexcept;
  /// Replies wait for space: sleep only briefly, since nobody notifies when there is some. Any
  /// thread.
  [[nodiscard]] bool is_blocked() const noexcept;

  /// Gives closed and cut lanes back, but those whose handlers wait. Outside handlers. Returns how
  /// many lanes are left.
  std::size_t reclaim() noexcept;

  /// All its lanes were closed, and nothing is left in them. For a worker that gets no more lanes.
  [[nodiscard]] bool is_closed() const noexcept;

  /// The peer has failed: its lanes are cut. Any thread, not beside add().
  void cut(node_id peer) noexcept;

  // ---- lanes that are shared; with the engine's accept_mutex_ where nothing else is said ----

  [[nodiscard]] bool shares_lanes() const noexcept { return shares_lanes_; }

  /// It sleeps, or has ended. Any thread may ask, without the mutex.
  void set_asleep(bool asleep) noexcept {
    // Relaxed: a hint, but for what the fence in worker_group::is_awake() orders.
    is_asleep_.store(asleep, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_asleep() const noexcept {
    return is_asleep_.load(std::memory_order_relaxed);
  }
  /// It has looked at all its lanes, or at some of many, and nothing was there. Without the mutex.
  void note_idle() noexcept {
    idle_turns_.store(idle_turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Lanes that it serves now. Any thread, without the mutex.
  [[nodiscard]] std::uint32_t lanes_here() const noexcept {
    return lanes_here_.load(std::memory_order_relaxed);
  }
  /// Lanes of its own that others serve. Any thread, without the mutex.
  [[nodiscard]] bool lends() const noexcept { return lent_.load(std::memory_order_relaxed) != 0; }

  /// Was it never idle since this was last called for `who`? Any thread.
  enum class asker : unsigned char { worker, watch };
  [[nodiscard]] bool is_overdue(asker who) noexcept;
  /// A lane that could be served now by another worker: where its next request has waited since
  /// before `since`, as far as was seen. Looks at a few lanes. Any thread.
  [[nodiscard]] std::optional<std::uint32_t> find_waiting(time_point now,
                                                          time_point since) noexcept;
  /// Takes the lane at `place` of another worker; false when that one is in it.
  bool take(worker& from, std::uint32_t place) noexcept;
  /// Gives lanes that it took back to their homes: all, or those whose homes have been idle since.
  void give_back(bool all) noexcept;

  /// Adds what it sleeps on: its doorbell, and those of the homes of lanes that it took. Without
  /// the mutex.
  void add_doorbells(std::vector<doorbell*>& to) const;

  /// The calling handler, if it is one, waits: until the end of this object its worker serves other
  /// lanes, or the same one. On the handler's stack, without the mutex.
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
  /// A lane of which this is the home, or one that was taken; neither where the place is free.
  struct entry {
    transport* via = nullptr;
    std::unique_ptr<responder> lane; ///< null when it was taken
    bool is_lent = false;
    worker* home = nullptr; ///< of one that was taken
    std::uint32_t home_place = 0;
    std::uint64_t home_was_idle = 0; ///< idle turns of the home then

    [[nodiscard]] bool is_free() const noexcept { return lane == nullptr && home == nullptr; }
  };

  /// A lane that had requests a short while ago.
  struct busy_lane {
    std::uint32_t place = 0;
    std::uint32_t idle_turns = 0;
  };

  /// Serves up to `most` requests of the lane at `place`; returns how many.
  unsigned serve(std::uint32_t place, unsigned most, const lane_driver*& moved) noexcept;
  unsigned serve_next_idle(std::uint32_t places, unsigned most, const lane_driver*& moved) noexcept;
  void begin_turn(lane_turn& t) noexcept;
  void end_turn(lane_turn& t) noexcept;
  void leave(lane_turn& t) noexcept;
  void come_back(lane_turn& t) noexcept;
  /// Calls `what(lane)` for its lanes, until that returns true; returns what it returned last.
  template <class What>
  bool any_lane(const What& what) const noexcept;
  /// Room for one more lane. With the mutex; throws std::bad_alloc.
  [[nodiscard]] std::optional<std::uint32_t> free_place();
  void fill(std::uint32_t place, responder* lane) noexcept;
  void give_back(std::uint32_t place) noexcept;

  engine* engine_;
  std::uint32_t index_;
  doorbell* wakes_;
  worker_counters& counters_;
  bool shares_lanes_;
  /// Lanes by place; readers go up to `places_`. A lane is only destroyed by its home's thread.
  std::vector<lane_place<responder>> lanes_;
  std::atomic<std::uint32_t> places_{0};
  std::atomic<std::uint32_t> lanes_here_{0}; ///< changes with the mutex, as the next two
  std::atomic<std::uint32_t> lent_{0};
  std::atomic<std::uint32_t> taken_{0}; ///< lanes of others that are here
  std::atomic<bool> is_asleep_{false};
  lane_in_use<responder> in_use_;
  std::atomic<std::uint64_t> idle_turns_{0};       ///< only its thread changes it
  std::array<std::uint64_t, 2> idle_turns_seen_{}; ///< by asker; with the mutex
  std::uint32_t next_looked_at_ = 0;               ///< by find_waiting(); with the mutex
  static constexpr std::uint32_t most_busy = 16;

  std::array<busy_lane, most_busy> busy_{}; ///< the first busy_count_; looked at in each turn
  std::uint32_t busy_count_ = 0;
  std::uint32_t next_busy_ = 0; ///< makes room for another when busy_ is full
  std::uint32_t next_idle_ = 0; ///< place that is looked at next of all
  std::vector<entry> entries_;  ///< by place; guarded by the engine's accept_mutex_
};

} // namespace farcall::am
