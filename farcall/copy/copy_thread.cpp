// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/copy/copy_thread.hpp>

namespace farcall::detail {

void copy_thread::submit(large_copy& copy) {
  const bool is_taken = thread_.submit([&] {
    waiting_.push_back(&copy);
    copy.retain();
  });
  // If the thread has ended, the caller makes the copy itself.
  while (!is_taken && copy.work()) {
  }
}

time_point copy_thread::copy_next(std::unique_lock<std::mutex>& lock) noexcept {
  if (waiting_.empty()) return no_deadline;
  large_copy& copy = *waiting_.front();
  waiting_.pop_front();
  lock.unlock();
  {
    // Run the copy's continuations on the completion thread. They are user code, and may wait for
    // the next copy, which this thread has to make.
    const am::continuations_elsewhere moved(am::engine_of(*copy.owner()).other_thread());
    while (copy.work()) {
    }
  }
  copy.release();
  lock.lock();
  return service_thread::at_once;
}

} // namespace farcall::detail
