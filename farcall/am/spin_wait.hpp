#pragma once

#include <farcall/am/wait_policy.hpp>
#include <farcall/base/clock.hpp>

#include <atomic>

namespace farcall::am {

/// What came of a yield.
struct yield_outcome {
  bool was_taken;       ///< another thread ran on this processor, says the kernel
  clock::duration away; ///< until the caller ran again
};

/// True when another waiting thread took the processor: it was taken, and given back soon. Soon is
/// within twice the time that a waiting thread spins before it yields: so much do this thread and
/// the other save if the next wait yields at once. A thread that computes keeps the processor for
/// longer, and must not get it before every short wait.
[[nodiscard]] constexpr bool is_oversubscribed(const yield_outcome& y,
                                               const wait_policy& policy) noexcept {
  return y.was_taken && y.away / 2 <= policy.yield_after;
}

/// How a thread that finds nothing to do spends its time before it sleeps: it spins, since a reply
/// that comes in a fraction of a microsecond must not wait for a system call; after a while it
/// yields its processor between polls, since it may be waiting for a thread that needs one; and
/// then it has waited enough.
class spin_wait {
 public:
  /// `oversubscribed` is shared by the threads of a process: true when another waiting thread took
  /// the processor the last time that one of them yielded it. Then the next wait yields at once.
  spin_wait(const wait_policy& policy, std::atomic<bool>& oversubscribed,
            time_point deadline = no_deadline) noexcept
      : policy_(policy), oversubscribed_(&oversubscribed), deadline_(deadline) {
    renew();
  }

  /// Once per iteration of a loop that polls for something: a short pause. True when the thread
  /// should sleep, or when the deadline has passed.
  [[nodiscard]] bool is_over() noexcept {
    spin_pause();
    return ++turn_ % interval_ == 0 && look();
  }

  [[nodiscard]] unsigned turn() const noexcept { return turn_; }
  /// Reads the clock if there is a deadline at all.
  [[nodiscard]] bool deadline_has_passed() const noexcept {
    return deadline_ != no_deadline && clock::now() >= deadline_;
  }

  /// Something was found, or the thread has slept: begins anew. Not the deadline.
  void renew() noexcept {
    started_ = {};
    interval_ = oversubscribed_->load(std::memory_order_relaxed) ? yield_interval : spin_interval;
  }

 private:
  /// Iterations between two readings of the clock: many while the thread only spins, so that the
  /// clock does not lengthen the wait; few afterwards, so that other threads soon get the
  /// processor.
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
