// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/base/service_thread.hpp>

#include <chrono>
#include <deque>
#include <mutex>

namespace farcall::detail {

/// A copy that is large enough to run on other threads than the caller's. Threads take pieces of
/// it.
class large_copy : public am::local_completion {
 public:
  using local_completion::local_completion;

  /// Takes a piece and copies it. Returns false if all pieces have been taken.
  virtual bool work() noexcept = 0;

  bool help(time_point /*until*/) noexcept override { return work(); }
};

/// Thread that works on large copies, so that they progress even if no other thread waits for them.
class copy_thread {
 public:
  copy_thread() : thread_("farcall-copy", [this](auto& lock) { return copy_next(lock); }) {}

  /// Works on `copy` until no piece is left, and keeps a reference to it until then. Throws
  /// std::system_error if no thread can be made.
  void submit(large_copy& copy);

  /// True once submit() has been called.
  [[nodiscard]] bool has_started() noexcept {
    const std::lock_guard guard(thread_.mutex());
    return thread_.has_started();
  }

  /// Waits until all submitted copies are done, at most for `duration`.
  void finish(std::chrono::milliseconds duration) noexcept {
    (void)thread_.drain(clock::now() + duration);
  }

  /// Finishes the submitted copies, and stops the thread; see service_thread::stop(). Copies with
  /// nodes that have failed end at once.
  bool stop(time_point deadline = no_deadline) noexcept { return thread_.stop(deadline); }

 private:
  [[nodiscard]] time_point copy_next(std::unique_lock<std::mutex>& lock) noexcept;

  std::deque<large_copy*> waiting_; ///< copies that wait for the thread; guarded by its mutex
  service_thread thread_;
};

} // namespace farcall::detail
