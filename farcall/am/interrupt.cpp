// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>

#include <utility>

namespace farcall::am {

constinit thread_local interrupt_check thread_interrupt;

interruption::interruption() noexcept
    : wait_condition(no_deadline), check_(std::exchange(this_stack.interrupt, nullptr)) {
  if (check_ != nullptr) next_ = clock::now() + interrupt_interval;
}

void interruption::ask() {
  next_ = clock::now() + interrupt_interval;
  if (!check_->is_interrupted(check_->user)) return;
  // Run the continuations of replies that this wait has received, because the thread may not wait
  // again.
  fiber_scheduler::run_queued(fiber_scheduler::mine());
  throw interrupted("the wait was interrupted by the program; what it has waited for goes on");
}

} // namespace farcall::am
