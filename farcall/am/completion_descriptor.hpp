// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/doorbell.hpp>

#include <atomic>

namespace farcall::am {

/// A file descriptor for poll() and epoll that is readable while completions may be pending, like a
/// completion channel of verbs or ucp_worker_get_efd(). Any thread may use it.
class completion_descriptor {
 public:
  /// Makes the descriptor. Throws error if the process can open no more file descriptors.
  completion_descriptor();
  completion_descriptor(const completion_descriptor&) = delete;
  completion_descriptor& operator=(const completion_descriptor&) = delete;
  ~completion_descriptor() = default;

  [[nodiscard]] int get() const noexcept { return fd_.get(); }

  /// Makes the descriptor readable, unless it is readable already. Called when there may be a
  /// completion to receive.
  void signal() noexcept;
  /// Makes the descriptor unreadable. Call before polling for completions, because each later
  /// completion then signals again.
  void clear() noexcept;

  /// Closes a forked child's copy of the descriptor, which would keep the descriptor open.
  void close() noexcept { fd_ = {}; }

  [[nodiscard]] bool is_signalled() const noexcept {
    return is_signalled_.load(std::memory_order_acquire);
  }
  /// Returns the doorbell that clear() notifies. The descriptor's thread sleeps on it and, once
  /// notified, polls for replies again.
  [[nodiscard]] doorbell& cleared() noexcept { return cleared_; }

 private:
  unique_fd fd_;
  /// True from a signal until the next clear(). Only the first signal makes a system call.
  std::atomic<bool> is_signalled_{false};
  doorbell cleared_;
};

} // namespace farcall::am
