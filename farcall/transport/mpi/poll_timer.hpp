#pragma once

#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <chrono>

namespace farcall::mpi {

/// The descriptor that a node's progress thread waits for: readable when a time has come. MPI has
/// none that tells of messages.
class poll_timer {
 public:
  /// Throws error.
  poll_timer();

  [[nodiscard]] int fd() const noexcept { return timer_.get(); }

  /// Becomes readable after that time, unless a time was set before that has not come yet. Any
  /// thread.
  void after(std::chrono::nanoseconds delay) noexcept {
    // Sequentially consistent, as in take(): either the thread that takes the time sees what we
    // have left for it, or we see that it has taken it and set the next.
    if (!is_set_.exchange(true, std::memory_order_seq_cst)) set(delay);
  }
  /// The same, in place of any time that was set before.
  void at_last_after(std::chrono::nanoseconds delay) noexcept {
    is_set_.store(true, std::memory_order_seq_cst);
    set(delay);
  }

  /// It is not readable any more. One thread at a time.
  void take() noexcept;

 private:
  void set(std::chrono::nanoseconds delay) noexcept;

  unique_fd timer_;
  std::atomic<bool> is_set_{false};
};

} // namespace farcall::mpi
