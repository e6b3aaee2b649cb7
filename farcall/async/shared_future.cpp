// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/shared_future.hpp>

#include <utility>

namespace farcall::detail {

void many_continuations::follow(am::local_completion& event) noexcept {
  event_ = &event;
  // Keep a reference to the event for run(), which uses the event and then releases the reference.
  event.retain();
  event.attach(this);
}

void many_continuations::attach(am::continuation* c) noexcept {
  // Keep a reference to the event until the guard, which is a part of the event, has been unlocked.
  // As soon as `c` is in the list, another thread may run `c`, and `c` may release the last other
  // reference.
  am::local_completion& event = *event_;
  event.retain();
  event.guard().lock();
  // Test has_run_ rather than event.ready(). The event may be ready although the continuations that
  // wait for it have not run yet, and these must run before `c`.
  const bool now = has_run_;
  if (!now) waiting_.push_back(*c);
  event.guard().unlock();
  if (now) am::run_continuation(*c);
  event.release();
}

bool many_continuations::detach(const am::continuation* c) noexcept {
  event_->guard().lock();
  const bool was_attached = waiting_.remove(*c);
  event_->guard().unlock();
  return was_attached || am::take_back(*c);
}

void many_continuations::run() noexcept {
  event_->guard().lock();
  has_run_ = true;
  const am::continuation_list due = std::exchange(waiting_, {});
  event_->guard().unlock();
  am::run_continuations(due);
  event_->release();
}

void throw_empty_shared_future() {
  throw error("this shared future is empty: it never had a result, or was moved from");
}

} // namespace farcall::detail
