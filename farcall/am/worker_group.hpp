// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/worker.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace farcall::am {

/// The workers of a node, which share its lanes. If a lane's worker runs a handler or has too much
/// to do, an idle worker takes over the lane and serves its waiting requests. Idle workers that
/// spin check other workers' lanes themselves. In place of workers that sleep, one thread *watches*
/// these lanes as long as other workers are awake.
class worker_group {
 public:
  /// Makes the group. `mutex` guards the lanes of the workers. `wakes_watch` is the doorbell of the
  /// thread that calls watch().
  worker_group(const std::vector<std::unique_ptr<worker>>& workers, std::mutex& mutex,
               doorbell& wakes_watch) noexcept
      : workers_(workers), mutex_(mutex), wakes_watch_(wakes_watch) {}

  /// Lets the idle worker `w` take over a lane whose requests have waited long enough. If `at_once`
  /// is true, any waiting request is enough. Returns true if `w` has taken a lane. Call on the
  /// worker's thread.
  bool take_over(worker& w, bool at_once = false) noexcept;

  /// Wakes a sleeping worker if requests wait in a lane of a worker that is awake but busy. Returns
  /// the time at which the watching thread must call watch() again, or no_deadline if it need not
  /// watch.
  [[nodiscard]] time_point watch() noexcept;
  /// Notes that the worker `w` has got a lane, or has woken up.
  void is_awake(const worker& w) noexcept;

  /// Marks the calling thread's worker `w` as asleep for as long as this object exists.
  class sleep {
   public:
    sleep(worker_group& g, worker& w) noexcept : group_(g), worker_(w) {
      w.set_asleep(true);
      if (!w.shares_lanes()) return;
      // Lock and unlock the mutex once. A thread that is taking or checking a lane of `w` has then
      // finished, and a thread that locks the mutex later sees that `w` sleeps.
      const std::lock_guard passed(g.mutex_);
    }
    sleep(const sleep&) = delete;
    sleep& operator=(const sleep&) = delete;
    ~sleep() {
      worker_.set_asleep(false);
      group_.is_awake(worker_);
    }

   private:
    worker_group& group_;
    worker& worker_;
  };

  /// Number of iterations of an idle worker between two checks of other workers' lanes; they take
  /// some tens of microseconds. More frequent checks would too often take the checked cache lines
  /// away from the cores that write them.
  static constexpr unsigned take_over_interval = 512;

 private:
  [[nodiscard]] bool is_any_awake() const noexcept;

  const std::vector<std::unique_ptr<worker>>& workers_;
  std::mutex& mutex_;
  doorbell& wakes_watch_;
  std::atomic<bool> is_watching_{false};
};

} // namespace farcall::am
