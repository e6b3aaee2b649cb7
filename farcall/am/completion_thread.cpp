// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion_thread.hpp>
#include <farcall/base/log.hpp>

#include <string>
#include <system_error>
#include <utility>

namespace farcall::am {

void completion_thread::take(continuation_list due) noexcept {
  if (due.is_empty()) return;
  try {
    (void)thread_.submit([&] {
      due_.append(due);
      has_due_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error& e) {
    log::warning(std::string("continuations run on another thread of the library, since "
                             "their own cannot be started: ") +
                 e.what());
  }
  notify_if_armed(*wakes_);
  // Run the continuations here if take() has left them in the list, because the completion thread
  // has ended or cannot be started. Otherwise the list is empty.
  run_continuations(due);
}

time_point completion_thread::run_due(std::unique_lock<std::mutex>& lock) noexcept {
  const continuation_list due = take_all();
  if (due.is_empty()) return no_deadline;
  lock.unlock();
  run_continuations(due);
  lock.lock();
  return service_thread::at_once;
}

continuation_list completion_thread::take_all() noexcept {
  has_due_.store(false, std::memory_order_relaxed);
  return std::exchange(due_, {});
}

continuation_list completion_thread::give_due() noexcept {
  if (!has_due()) return {};
  const std::lock_guard guard(thread_.mutex());
  return take_all();
}

} // namespace farcall::am
