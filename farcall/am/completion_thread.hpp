// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/continuation.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/service_thread.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <mutex>

namespace farcall::am {

/// Runs continuations in place of threads on which others depend, such as the event loop. A
/// continuation may wait for an event that only such a thread can deliver. The first continuation
/// starts the completion thread. Threads that wait for a continuation run queued ones, too, because
/// the completion thread may be blocked in a continuation that waits for a later one.
class completion_thread final : public continuation_sink {
 public:
  /// Makes the object without starting the thread. `wakes` is the doorbell of the other threads
  /// that may run continuations.
  explicit completion_thread(doorbell& wakes) noexcept
      : wakes_(&wakes), thread_("farcall-then", [this](auto& lock) { return run_due(lock); }) {}

  /// Queues continuations for the completion thread, which runs them in order. If the thread cannot
  /// be started or has been stopped, runs them at once on the calling thread. Any thread may call
  /// it.
  void take(continuation_list due) noexcept override;

  [[nodiscard]] bool has_due() const noexcept {
    // Acquire, paired with the release store in take(). The queue itself is guarded by the mutex.
    return has_due_.load(std::memory_order_acquire);
  }
  /// Removes the queued continuations and returns them. The caller must run them.
  [[nodiscard]] continuation_list give_due() noexcept;

  /// True after stop(), when continuations run on the thread that submits them.
  [[nodiscard]] bool has_ended() noexcept {
    const std::lock_guard guard(thread_.mutex());
    return thread_.is_stopping();
  }
  /// Ends the completion thread, as described at service_thread::stop(). Do not call from a
  /// continuation that runs on the completion thread.
  bool stop(time_point deadline = no_deadline) noexcept { return thread_.stop(deadline); }

 private:
  [[nodiscard]] time_point run_due(std::unique_lock<std::mutex>& lock) noexcept;
  /// Removes all continuations from the queue and returns them. Call with the mutex held.
  [[nodiscard]] continuation_list take_all() noexcept;

  doorbell* wakes_;
  continuation_list due_;            ///< continuations to run; guarded by the thread's mutex
  std::atomic<bool> has_due_{false}; ///< changes under that mutex
  service_thread thread_;
};

} // namespace farcall::am
