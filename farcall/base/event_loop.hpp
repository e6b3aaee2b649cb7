// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/timer_queue.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace farcall {

/// Handles the events of a descriptor. Called on the loop's thread, one call at a time. Must not
/// block.
class event_handler {
 public:
  event_handler() = default;
  event_handler(const event_handler&) = delete;
  event_handler& operator=(const event_handler&) = delete;
  virtual ~event_handler() = default;
  /// Handles events; `events` is a mask of EPOLLIN and the like.
  virtual void on_event(std::uint32_t events) noexcept = 0;
};

/// Handler that calls a function for each event, and logs exceptions of the function.
class function_handler final : public event_handler {
 public:
  explicit function_handler(std::function<void()> function) : function_(std::move(function)) {}
  void on_event(std::uint32_t events) noexcept override;

 private:
  std::function<void()> function_;
};

/// Waits on one thread for any number of descriptors and points in time, and runs functions that
/// other threads post. Handlers and functions must not block, because all jobs of the process
/// depend on the loop.
class event_loop final : private fork_observer {
 public:
  /// Starts the thread, which the system knows as `name`. Throws error, and std::system_error if no
  /// thread can be made.
  explicit event_loop(const char* name);
  /// Makes a loop without a thread, whose owner calls turn() to run it. Throws error.
  event_loop();
  /// Embeds the loop in `parent`, whose thread runs the handlers and functions of both loops. When
  /// the embedded loop ends, its handlers, functions and timers end with it, while the parent
  /// continues. Throws error.
  explicit event_loop(std::shared_ptr<event_loop> parent);
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;
  /// Ends the loop's thread, or detaches the loop from its parent, and destroys the handlers.
  ~event_loop() override;

  /// Ends the loop's thread, or detaches the loop from its parent. After stop() has returned, no
  /// handler runs; until then, handlers may use the loop. Must not be called on the loop's thread.
  void stop() noexcept;

  /// Runs one iteration of a loop without a thread. Calls the handlers of ready descriptors, and
  /// runs posted functions and the timers that are due at `now`. Does not wait.
  void turn(time_point now);

  // Any thread may call the following functions.

  /// Watches `fd`, which the caller owns and must remove before closing it. `events` is a mask of
  /// EPOLLIN and the like. With EPOLLONESHOT, modify() must be called before each further event.
  /// Throws error.
  void add(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler);
  void modify(int fd, std::uint32_t events) noexcept;
  /// Stops watching a descriptor. After a call on the loop's thread, the handler is not called any
  /// more. After a call on another thread, the handler may still be running, or be called once
  /// more; drain() waits for this.
  void remove(int fd) noexcept;

  /// Runs `function` on the loop's thread, as soon as possible.
  void post(std::function<void()> function);
  /// Waits until the handlers and functions that run now have returned. After drain(), a handler
  /// that was removed before, or a timer that was cancelled before, does not run any more. Returns
  /// at once if called on the loop's thread, or if the loop has no running thread. Must not be
  /// called at the same time as stop().
  void drain() noexcept;
  /// Runs `function` on the loop's thread at `when` or a little later.
  void at(time_point when, std::function<void()> function);

  /// Reserves space for one more timer, so that set() cannot fail. Throws std::bad_alloc.
  void reserve_timer();
  void unreserve_timer() noexcept;
  /// Makes `t` expire at `when`, or a little later, and no longer at the time that was set before.
  /// The caller must have reserved space for `t`. The loop holds `t` until it expires or is
  /// cancelled. Does nothing in a child of a fork, where the loop's thread does not run.
  void set(timer& t, time_point when) noexcept;
  /// Cancels `t`. Does nothing if `t` is expiring now, has expired, or was never set.
  void cancel(timer& t) noexcept;

  /// Makes the loop poll for a moment without sleeping. Called on the loop's thread after a handler
  /// has sent a message to which the other side is likely to reply at once.
  void expect_more() noexcept {
    if (parent_ != nullptr) return parent_->expect_more();
    eager_until_ = clock::now() + eagerness;
  }

 private:
  struct watched {
    std::uint32_t serial;
    std::shared_ptr<event_handler> handler;
  };

  static constexpr std::chrono::microseconds eagerness{100};

  void before_fork() noexcept override { mutex_.lock(); }
  void after_fork_in_parent() noexcept override { mutex_.unlock(); }
  void after_fork_in_child() noexcept override { mutex_.unlock(); }

  void run() noexcept;
  /// Runs one iteration of an embedded loop, on the parent's thread.
  void run_embedded();
  /// True if a thread other than the calling one runs the handlers.
  [[nodiscard]] bool is_elsewhere() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds time_to_wait();
  void call_handlers(std::chrono::nanoseconds wait) noexcept;
  void run_due(time_point now);
  void wake() noexcept;

  unique_fd epoll_;
  unique_fd wake_;
  const std::uint32_t made_in_ = fork_generation();
  std::mutex mutex_;
  std::unordered_map<int, watched> watched_;
  std::uint32_t last_serial_ = 0;
  std::vector<std::function<void()>> posted_;
  timer_queue timers_;
  std::uint64_t begun_turns_ = 0;
  std::uint64_t ended_turns_ = 0;
  std::condition_variable turn_ended_;
  std::uint32_t drainers_ = 0; ///< threads that wait for turn_ended_
  time_point eager_until_{};   ///< time until which the loop polls; used by the loop's thread only
  std::atomic<bool> stopping_{false};
  std::shared_ptr<event_loop> parent_; ///< loop in which this loop is embedded; otherwise null
  counted_ptr<timer> alarm_; ///< in an embedded loop: timer of the parent that expires when the
                             ///< earliest of timers_ is due
  library_thread thread_;
};

/// A timer that runs a function on the loop's thread. The time can be set again and again.
/// Exceptions of the function are logged. Any thread may call the members.
class function_timer final : public timer {
 public:
  /// `loop` must outlive this timer. Throws std::bad_alloc.
  function_timer(event_loop& loop, std::function<void()> function);
  ~function_timer() override { loop_->unreserve_timer(); }

  void set(time_point when) noexcept { loop_->set(*this, when); }
  void cancel() noexcept { loop_->cancel(*this); }

 private:
  void expire() noexcept override;

  event_loop* loop_;
  std::function<void()> function_;
};

/// Returns the event loop of this process, which ends when its last owner releases it. Throws
/// error, and std::system_error if no thread can be made.
[[nodiscard]] std::shared_ptr<event_loop> common_event_loop();
/// Returns the event loop of this process. From this call on, the loop lives as long as the
/// process.
[[nodiscard]] event_loop& lasting_event_loop();

} // namespace farcall
