#pragma once

#include <farcall/am/completion.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace farcall::detail {

/// A copy that is large enough to run off the calling thread. Threads take pieces of it.
class large_copy : public am::local_completion {
 public:
  using local_completion::local_completion;

  /// Does a piece; false when none is left to take.
  virtual bool work() noexcept = 0;

  bool help(time_point /*until*/) noexcept override { return work(); }
};

/// The thread that works on large copies while nobody waits for them. Started by the first one.
class copy_thread {
 public:
  copy_thread() = default;
  copy_thread(const copy_thread&) = delete;
  copy_thread& operator=(const copy_thread&) = delete;
  ~copy_thread() { (void)stop(); }

  /// Works on `copy` until no piece is left. Keeps a reference meanwhile.
  void submit(large_copy& copy);

  /// Something was submitted.
  [[nodiscard]] bool has_started() noexcept {
    const std::lock_guard guard(mutex_);
    return thread_.joinable();
  }

  /// Waits until what was submitted is done, at most for `duration`.
  void finish(std::chrono::milliseconds duration) noexcept;

  /// Finishes what was submitted and ends the thread. Copies with nodes that have failed end at
  /// once. False when it has not ended until `deadline`: then this must stay as it is.
  bool stop(time_point deadline = no_deadline) noexcept;

 private:
  void run() noexcept;

  std::mutex mutex_;
  std::condition_variable something_;
  std::condition_variable nothing_;
  std::deque<large_copy*> waiting_;
  bool busy_ = false; ///< with one that is not in waiting_ any more
  bool stopping_ = false;
  bool has_ended_ = false;
  std::thread thread_;
};

} // namespace farcall::detail
