#include <farcall/offload/shared_future.hpp>

#include <utility>

namespace farcall::detail {

void many_continuations::follow(am::local_completion& event) noexcept {
  event_ = &event;
  // Until run(), so that this is there then.
  event.retain();
  event.attach(this);
}

void many_continuations::attach(am::continuation* c) noexcept {
  // Another thread may run `c`, which ends the last holder, before this one has left the guard.
  am::local_completion& event = *event_;
  event.retain();
  event.guard().lock();
  // Not when the event is ready: those that wait already come first.
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
