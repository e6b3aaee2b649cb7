#include <farcall/am/completion_thread.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>

#include <string>
#include <system_error>
#include <utility>

namespace farcall::am {

void completion_thread::take(continuation_list due) noexcept {
  if (due.is_empty()) return;
  {
    const std::lock_guard guard(mutex_);
    if (!thread_.joinable() && !stopping_) {
      try {
        thread_ = std::thread([this] { run(); });
      } catch (const std::system_error& e) {
        log::warning(std::string("continuations run on a thread of the library's: no other can be "
                                 "made: ") +
                     e.what());
      }
    }
    if (thread_.joinable() && !stopping_) {
      due_.append(due);
      has_due_.store(true, std::memory_order_release);
    }
  }
  something_.notify_one();
  notify_if_armed(*wakes_);
  run_continuations(due);
}

void completion_thread::run() noexcept {
  leave_signals_to_other_threads();
  const signal_stack for_faults;
  std::unique_lock guard(mutex_);
  for (;;) {
    something_.wait(guard, [this] { return stopping_ || !due_.is_empty(); });
    if (due_.is_empty()) break;
    const continuation_list due = take_all();
    guard.unlock();
    run_continuations(due);
    guard.lock();
  }
  has_ended_ = true;
  something_.notify_all();
}

continuation_list completion_thread::take_all() noexcept {
  has_due_.store(false, std::memory_order_relaxed);
  return std::exchange(due_, {});
}

continuation_list completion_thread::give_due() noexcept {
  if (!has_due()) return {};
  const std::lock_guard guard(mutex_);
  return take_all();
}

bool completion_thread::stop(time_point deadline) noexcept {
  std::unique_lock guard(mutex_);
  stopping_ = true;
  if (!thread_.joinable()) return true;
  something_.notify_all();
  if (deadline != no_deadline &&
      !something_.wait_until(guard, deadline, [this] { return has_ended_; })) {
    thread_.detach();
    return false;
  }
  guard.unlock();
  thread_.join();
  return true;
}

} // namespace farcall::am
