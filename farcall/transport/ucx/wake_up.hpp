#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>

namespace farcall::ucx {

/// The descriptor that a node's progress thread waits for: readable when UCX's own descriptor is,
/// once for each time that it was asked for, and when a time has come.
class wake_up {
 public:
  /// `events` is UCX's, which outlives this. Throws error.
  explicit wake_up(int events);

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// UCX's descriptor counts, once. It was armed before.
  void on_event() noexcept;
  /// Becomes readable after that time, unless a time was set before that has not come yet. Any
  /// thread.
  void after(std::chrono::nanoseconds delay) noexcept;

  struct reasons {
    bool event = false;
    bool time = false;
  };
  /// Why it was readable; it is not any more. One thread at a time.
  [[nodiscard]] reasons take() noexcept;

 private:
  int events_;
  unique_fd epoll_;
  unique_fd timer_;
  std::atomic<bool> is_timer_set_{false};
};

} // namespace farcall::ucx
