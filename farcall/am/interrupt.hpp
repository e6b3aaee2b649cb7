// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>

#include <chrono>
#include <utility>
#include <vector>

/// Waits that a function of the program can end early, for instance because of a signal. Only waits
/// of code that expects this end early: waits inside an `interruptible` object.
namespace farcall::am {

/// Maximum time for which an interruptible wait does not ask if it should end.
inline constexpr std::chrono::milliseconds interrupt_interval{50};

/// Function that a waiting thread calls to find out if its wait should end.
struct interrupt_check {
  bool (*is_interrupted)(void* user) = nullptr; ///< null if waits do not end early
  void* user = nullptr;
};

/// Check of the calling thread. It is defined in the library, so that all shared objects of a
/// program use one instance.
extern constinit thread_local interrupt_check thread_interrupt;

/// Error of a wait that the thread's check has ended. The operation goes on, and can be waited for
/// again.
class interrupted : public error {
 public:
  using error::error;
};

/// While this object exists, waits of the calling code throw `interrupted` if the thread's check
/// says so. This has no effect on handlers, on continuations, and on code that runs inside such a
/// wait.
class interruptible {
 public:
  interruptible() noexcept : before_(this_stack.interrupt) {
    if (thread_interrupt.is_interrupted != nullptr && this_stack.context == nullptr) [[unlikely]]
      this_stack.interrupt = &thread_interrupt;
  }
  interruptible(const interruptible&) = delete;
  interruptible& operator=(const interruptible&) = delete;
  ~interruptible() { this_stack.interrupt = before_; }

 private:
  const interrupt_check* before_;
};

/// While this object exists, waits of the calling code are not interruptible. For waits until other
/// threads no longer use memory of the caller.
class uninterruptible {
 public:
  uninterruptible() noexcept : before_(std::exchange(this_stack.interrupt, nullptr)) {}
  uninterruptible(const uninterruptible&) = delete;
  uninterruptible& operator=(const uninterruptible&) = delete;
  ~uninterruptible() { this_stack.interrupt = before_; }

 private:
  const interrupt_check* before_;
};

/// Object that exists during one wait. If the wait is interruptible, the thread asks its check from
/// time to time. Code that runs on this stack during the wait, such as a continuation, is not
/// interruptible. The object is also a condition that ends sleeps, so that the thread can ask.
class interruption final : public wait_condition {
 public:
  interruption() noexcept;
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;
  ~interruption() { this_stack.interrupt = check_; }

  /// True if the wait is interruptible.
  [[nodiscard]] bool is_possible() const noexcept { return check_ != nullptr; }
  /// Asks the check if it was not asked for interrupt_interval. Throws interrupted.
  void ask_if_due() {
    if (is_possible() && clock::now() >= next_) ask();
  }
  /// Notes the end of a sleep. If `by_signal` is true, asks the check at once. Throws interrupted.
  void sleep_ended(bool by_signal) {
    if (!is_possible()) return;
    if (by_signal) {
      ask();
    } else {
      ask_if_due();
    }
  }

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override { return false; }
  [[nodiscard]] time_point next_poll() const noexcept override { return next_; }

 private:
  void ask();

  const interrupt_check* check_;
  time_point next_ = no_deadline; ///< time at which the check is asked next
};

} // namespace farcall::am
