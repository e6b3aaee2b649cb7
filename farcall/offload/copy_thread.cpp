#include <farcall/am/engine.hpp>
#include <farcall/base/join.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/offload/copy_thread.hpp>

namespace farcall::detail {

void copy_thread::submit(large_copy& copy) {
  {
    const std::lock_guard guard(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    waiting_.push_back(&copy);
    copy.retain();
  }
  something_.notify_one();
}

void copy_thread::run() noexcept {
  leave_signals_to_other_threads();
  std::unique_lock guard(mutex_);
  for (;;) {
    something_.wait(guard, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) break;
    large_copy& copy = *waiting_.front();
    waiting_.pop_front();
    busy_ = true;
    guard.unlock();
    {
      // What follows a copy is the user's code, which may wait for the next one.
      const am::continuations_elsewhere moved(am::engine_of(*copy.owner()).other_thread());
      while (copy.work()) {
      }
    }
    copy.release();
    guard.lock();
    busy_ = false;
    nothing_.notify_all();
  }
  has_ended_ = true;
  nothing_.notify_all();
}

void copy_thread::finish(std::chrono::milliseconds duration) noexcept {
  std::unique_lock guard(mutex_);
  // It would wait for itself.
  if (thread_.get_id() == std::this_thread::get_id()) return;
  nothing_.wait_for(guard, duration, [this] { return waiting_.empty() && !busy_; });
}

bool copy_thread::stop(time_point deadline) noexcept {
  {
    std::unique_lock guard(mutex_);
    stopping_ = true;
    something_.notify_one();
    if (deadline != no_deadline && thread_.joinable() &&
        thread_.get_id() != std::this_thread::get_id() &&
        !nothing_.wait_until(guard, deadline, [this] { return has_ended_; })) {
      thread_.detach();
      return false;
    }
  }
  join_unless_own(thread_);
  return true;
}

} // namespace farcall::detail
