#pragma once

#include <farcall/am/worker.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace farcall::am {

/// The workers of a node, which share its lanes: one that is idle takes lanes over where requests
/// wait because their worker runs a handler, or has too much to do. Idle workers that do not sleep
/// see that by themselves; for those that sleep, one thread *watches* while others are awake.
class worker_group {
 public:
  /// `mutex` guards the lanes of the workers; `wakes_watch` wakes the thread that calls watch().
  worker_group(const std::vector<std::unique_ptr<worker>>& workers, std::mutex& mutex,
               doorbell& wakes_watch) noexcept
      : workers_(workers), mutex_(mutex), wakes_watch_(wakes_watch) {}

  /// Looks whether `w`, which has nothing else to do, should take a lane over; true when it has. On
  /// its thread. With `at_once`, one whose request has just come will do.
  bool take_over(worker& w, bool at_once = false) noexcept;

  /// Looks for lanes that wait, and wakes a worker for one. Returns when to call it again. On the
  /// thread that watches.
  [[nodiscard]] time_point watch() noexcept;
  /// `w` has got a lane, or is awake.
  void is_awake(const worker& w) noexcept;

  /// While the calling thread sleeps, whose worker is `w`.
  class sleep {
   public:
    sleep(worker_group& g, worker& w) noexcept : group_(g), worker_(w) {
      w.set_asleep(true);
      if (!w.shares_lanes()) return;
      // Who looks at its lanes, or takes one, has done so; whoever does later sees that it sleeps.
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

 private:
  [[nodiscard]] bool is_any_awake() const noexcept;

  const std::vector<std::unique_ptr<worker>>& workers_;
  std::mutex& mutex_;
  doorbell& wakes_watch_;
  std::atomic<bool> is_watching_{false};
};

} // namespace farcall::am
