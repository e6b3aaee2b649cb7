// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/library_thread.hpp>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include <sched.h>

namespace farcall {

/// A thread that works on a queue of its owner. The first submit() starts the thread, on the
/// processors on which the maker of this object could run at that time. The caller of submit() may
/// since have been bound to a single processor. The owner has the queue, and uses it only while
/// mutex() is locked. Any thread may call the functions, except where stated.
class service_thread {
 public:
  /// Function of the owner that the thread calls for each piece of work. Returns the time at which
  /// the thread must call it again: `at_once` if more work may be due, and `no_deadline` if the
  /// thread has to wait for submit(). `lock` holds mutex() at the call and on return; the function
  /// releases it during the work. Must not throw.
  using step = std::function<time_point(std::unique_lock<std::mutex>& lock)>;
  static constexpr time_point at_once = time_point::min();

  /// `name` is the name of the thread, as for library_thread.
  service_thread(const char* name, step work);
  service_thread(const service_thread&) = delete;
  service_thread& operator=(const service_thread&) = delete;
  ~service_thread() { (void)stop(); }

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

  /// Calls `enqueue`, which adds work to the owner's queue, with the mutex held, and wakes the
  /// thread. After stop(), returns false and does not call `enqueue`. Throws std::system_error if
  /// no thread can be made, and what `enqueue` throws.
  template <class F>
  bool submit(F enqueue) {
    {
      const std::lock_guard guard(mutex_);
      if (is_stopping_) return false;
      start();
      enqueue();
      is_notified_ = true;
    }
    work_due_.notify_one();
    return true;
  }

  /// Waits, at most until `deadline`, until the thread has no more work and waits for submit().
  /// Returns at once if called on the thread itself, or if the thread has not started. Returns
  /// false if the deadline has passed.
  bool drain(time_point deadline) noexcept;

  /// Ends the thread after it has finished the work that is due: the thread calls the step once
  /// more, and again as long as the step returns `at_once`. If the thread has not ended by
  /// `deadline`, returns false; this object must then never be destroyed. One caller at a time.
  bool stop(time_point deadline = no_deadline) noexcept;

  /// True once submit() has been called. The caller must hold the mutex.
  [[nodiscard]] bool has_started() const noexcept { return has_started_; }
  /// True once stop() has been called. The caller must hold the mutex.
  [[nodiscard]] bool is_stopping() const noexcept { return is_stopping_; }

 private:
  void start();
  void run() noexcept;

  const char* name_;
  step work_;
  std::optional<cpu_set_t> processors_; ///< of the thread; empty if the system does not tell them
  std::mutex mutex_;
  std::condition_variable work_due_; ///< wakes the thread when is_notified_ or is_stopping_ changes
  std::condition_variable ended_;    ///< wakes other threads when is_idle_ or has_ended_ changes
  bool is_notified_ = false; ///< true if submit() was called since the beginning of the last step
  bool has_started_ = false;
  bool is_idle_ = false; ///< true while the thread waits for submit()
  bool is_stopping_ = false;
  bool has_ended_ = false;
  library_thread thread_;
};

} // namespace farcall
