// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/wait_policy.hpp>
#include <farcall/base/clock.hpp>

#include <atomic>
#include <chrono>

namespace farcall::am {

/// Result of a yield.
struct yield_outcome {
  bool was_taken;       ///< true if, according to the kernel, another thread ran on the processor
  clock::duration away; ///< duration of the yield, until the calling thread ran again
};

/// True if another *waiting* thread ran during the yield. This is assumed if another thread took
/// the processor and gave it back within twice the time for which a thread spins before it yields.
/// The two threads together save that much time if the next wait yields at once. A thread that
/// computes keeps the processor for longer, and must not get it before every short wait. Always
/// true for a policy that yields without spinning first.
[[nodiscard]] constexpr bool is_oversubscribed(const yield_outcome& y,
                                               const wait_policy& policy) noexcept {
  return policy.yield_after == std::chrono::nanoseconds(0) ||
         (y.was_taken && y.away / 2 <= policy.yield_after);
}

/// Waiting strategy of a thread that has nothing to do. The thread spins first, because a reply
/// that arrives within a microsecond must not wait for a system call. Later it yields between
/// polls, because the awaited thread may need the processor. Finally spin_wait reports that the
/// thread should sleep.
class spin_wait {
 public:
  /// Starts a wait. All waits of several threads share the flag `oversubscribed`, which says
  /// whether another waiting thread got the processor at the last yield that was checked. If the
  /// flag is true, this wait yields at once instead of spinning first.
  spin_wait(const wait_policy& policy, std::atomic<bool>& oversubscribed,
            time_point deadline = no_deadline) noexcept
      : policy_(policy), oversubscribed_(&oversubscribed), deadline_(deadline) {
    renew();
  }

  /// Pauses briefly. Called once in each iteration of a polling loop. Returns true if the thread
  /// should sleep, or if the deadline has passed.
  [[nodiscard]] bool is_over() noexcept {
    spin_pause();
    return ++turn_ % interval_ == 0 && look();
  }

  [[nodiscard]] unsigned turn() const noexcept { return turn_; }
  /// True if the deadline has passed. The clock is read only if there is a deadline.
  [[nodiscard]] bool deadline_has_passed() const noexcept {
    return deadline_ != no_deadline && clock::now() >= deadline_;
  }

  /// Starts the wait anew after a success or a sleep. The deadline stays the same.
  void renew() noexcept {
    started_ = {};
    interval_ = oversubscribed_->load(std::memory_order_relaxed) ? yield_interval : spin_interval;
  }

 private:
  /// Number of iterations between two readings of the clock. The number is large while the thread
  /// only spins, so that reading the clock does not lengthen the wait. Afterwards it is small, so
  /// that other threads soon get the processor.
  static constexpr unsigned spin_interval = 64;
  static constexpr unsigned yield_interval = 8;

  [[nodiscard]] bool look() noexcept;

  wait_policy policy_;
  std::atomic<bool>* oversubscribed_;
  time_point deadline_;
  time_point started_{};
  unsigned turn_ = 0;
  unsigned interval_ = spin_interval;
};

} // namespace farcall::am
