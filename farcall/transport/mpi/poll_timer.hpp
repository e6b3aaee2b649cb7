// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <chrono>

namespace farcall::mpi {

/// Descriptor that a node's event loop waits for. The descriptor is a timer, because MPI has no
/// descriptor for messages.
class poll_timer {
 public:
  /// Throws error.
  poll_timer();

  [[nodiscard]] int fd() const noexcept { return timer_.get(); }

  /// Makes the descriptor readable after `delay`. Does nothing if the timer is already set. Any
  /// thread may call this.
  void after(std::chrono::nanoseconds delay) noexcept {
    // Sequentially consistent, like the store in take(), so that no work is missed. Either the
    // thread that takes the timer's event sees the work that this thread has left for it, or this
    // thread sets the timer again.
    if (!is_set_.exchange(true, std::memory_order_seq_cst)) set(delay);
  }
  /// Makes the descriptor readable after `delay`, even if the timer is already set for another
  /// time.
  void at_last_after(std::chrono::nanoseconds delay) noexcept {
    is_set_.store(true, std::memory_order_seq_cst);
    set(delay);
  }

  /// Makes the descriptor unreadable. Called by one thread at a time.
  void take() noexcept;

 private:
  void set(std::chrono::nanoseconds delay) noexcept;

  unique_fd timer_;
  std::atomic<bool> is_set_{false};
};

} // namespace farcall::mpi
