// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/base/clock.hpp>

#include <chrono>

namespace farcall::am {

class acceptor;
class engine;
class lane_table;
class worker;
class worker_pool;

/// Receive coalescing. If a caller sends requests one after the other without waiting for replies,
/// a faster worker constantly polls the very cache line that the caller writes. Each request then
/// costs both sides a transfer of that line. A worker that has seen this for a while therefore lets
/// a few requests collect between its polls. Only the worker of a single lane does so, because it
/// delays no other caller.
class coalescing {
 public:
  /// Notes an iteration that served `requests` requests after `empty_polls` polls without any. If
  /// the caller does not wait for replies, pauses briefly.
  void pause_after(unsigned requests, unsigned empty_polls) noexcept;

 private:
  /// Maximum number of polls without a request between two requests of a caller that does not wait
  /// for replies. A caller that waits for a reply takes longer.
  static constexpr unsigned sooner_than_a_reply = 6;
  static constexpr std::chrono::microseconds interval{2};
  static constexpr unsigned enough = 20;
  static constexpr unsigned min_turns = 4;
  static constexpr unsigned max_turns = 8192;

  /// Number of consecutive iterations with requests for which the caller did not wait for replies.
  unsigned turns_ = 0;
  unsigned turns_before_ = min_turns;
  bool has_paused_ = false;
};

/// Scope of a worker's loop, which runs until the engine stops. The loop of a single-lane worker
/// also ends when its lane is closed. See run_wait_loop(). Made and used by the thread that acts as
/// the worker.
class worker_loop {
 public:
  worker_loop(engine& e, worker& w, bool is_of_lane) noexcept;
  /// From now on runs handlers on fibers, so that poll() returns while a handler waits.
  void run_on_fibers() noexcept { runs_on_fibers_ = true; }

  wait_condition::state poll(spin_wait& idle);
  [[nodiscard]] static bool may_end(const spin_wait& /*idle*/) noexcept { return false; }
  [[nodiscard]] bool has_work() noexcept;
  void sleep() { (void)sleep_unless(nullptr); }
  /// Sleeps like sleep(), but at most until `also`, unless it is null, may be over. Returns true if
  /// a signal has ended the sleep.
  [[nodiscard]] bool sleep_unless(wait_condition* also);

  [[nodiscard]] fiber_scheduler& fibers() noexcept { return fibers_; }

 private:
  /// True for one in `interval` polls without requests.
  [[nodiscard]] bool is_turn(unsigned interval) const noexcept {
    return idle_polls_ % interval == interval - 1;
  }
  [[nodiscard]] unsigned turn_on_fiber() noexcept;
  void note_served(unsigned served) noexcept;
  /// Polls while the engine stops. Returns `over` once all requests are served, or if replies have
  /// found no space for last_space_interval.
  [[nodiscard]] wait_condition::state poll_at_end() noexcept;

  engine& engine_;
  lane_table& lanes_;
  acceptor& acceptor_;
  worker_pool& pool_;
  worker& worker_;
  bool is_of_lane_;
  bool runs_on_fibers_ = false;
  unsigned served_on_fiber_ = 0; ///< result of the last batch that has ended on a fiber
  fiber_scheduler fibers_;
  time_point gives_up_{};
  coalescing requests_;
  unsigned idle_polls_ = 0;  ///< polls that found no request
  unsigned empty_polls_ = 0; ///< polls that found no request since the last request
  unsigned busy_turns_ = 0;
};

} // namespace farcall::am
