#pragma once

#include <farcall/am/continuation.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace farcall::am {

/// Runs continuations in place of threads that others depend on, as the one that watches the nodes:
/// what the user's code waits for there may be the next thing that such a thread has to tell.
/// Started by the first. Threads that wait for such code run it too: the thread itself may be kept
/// by a continuation that waits for one behind it.
class completion_thread final : public continuation_sink {
 public:
  /// Threads that may run them, too, sleep on `wakes`.
  explicit completion_thread(doorbell& wakes) noexcept : wakes_(&wakes) {}
  completion_thread(const completion_thread&) = delete;
  completion_thread& operator=(const completion_thread&) = delete;
  ~completion_thread() { (void)stop(); }

  /// Runs them on the thread, in order, and at once on the calling one when it cannot be made, or
  /// has been stopped. Any thread.
  void take(continuation_list due) noexcept override;

  [[nodiscard]] bool has_due() const noexcept {
    // Acquire; partner: the release store in take().
    return has_due_.load(std::memory_order_acquire);
  }
  /// What nobody runs yet, to be run by the caller.
  [[nodiscard]] continuation_list give_due() noexcept;

  /// Waits until all have run. One thread; not from a continuation that runs there. False when they
  /// have not until `deadline`: then this must stay as it is.
  bool stop(time_point deadline = no_deadline) noexcept;

 private:
  void run() noexcept;
  /// With the mutex held.
  [[nodiscard]] continuation_list take_all() noexcept;

  doorbell* wakes_;
  std::mutex mutex_;
  std::condition_variable something_;
  continuation_list due_;
  std::atomic<bool> has_due_{false}; ///< changes under mutex_
  bool stopping_ = false;
  bool has_ended_ = false;
  std::thread thread_;
};

} // namespace farcall::am
