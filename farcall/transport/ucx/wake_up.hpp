// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>

namespace farcall::ucx {

/// Descriptor that a node's event loop waits for. It becomes readable when a timer expires. It also
/// becomes readable when UCX's own descriptor is readable, but only once after each call of
/// on_event().
class wake_up {
 public:
  /// `events` is UCX's descriptor, which must outlive this object. Throws error.
  explicit wake_up(int events);

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Makes this descriptor readable, once, as soon as UCX's own descriptor is readable. The caller
  /// must arm UCX's descriptor before this call.
  void on_event() noexcept;
  /// Makes the descriptor readable after `delay`, unless the timer is already set. Any thread may
  /// call this.
  void after(std::chrono::nanoseconds delay) noexcept;

  struct reasons {
    bool event = false;
    bool time = false;
  };
  /// Returns why the descriptor was readable, and makes it unreadable. Called by one thread at a
  /// time.
  [[nodiscard]] reasons take() noexcept;

 private:
  int events_;
  unique_fd epoll_;
  unique_fd timer_;
  std::atomic<bool> is_timer_set_{false};
};

} // namespace farcall::ucx
