// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/timed_event.hpp>
#include <farcall/async/deadline_resume.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/ready_or_late.hpp>

#include <atomic>
#include <utility>

namespace farcall::detail {

/// State of one wait with a deadline. The owner of the ready_or_late holds a reference to this
/// object. The event and the event loop each hold another reference, until they do not use the
/// object any more.
class ready_or_late::state final : public am::timed_event {
 public:
  state(am::completion& event, time_point deadline)
      : timed_event(owner_of(event)), event_(&event), deadline_(deadline) {}

  void begin(am::continuation& then) noexcept {
    const counted_ptr<state> self(this);
    then_ = &then;
    arrival_.held = self;
    event_->attach(&arrival_);
    set(deadline_);
    // If the event became ready before set(), its continuation has found no timer to cancel, so
    // cancel the timer now.
    if (is_decided()) cancel();
  }

  [[nodiscard]] bool end() noexcept {
    const bool ends = decide();
    if (ends) cancel();
    // If detach() returns false, another thread is about to run the continuation, which then
    // releases its own reference to this object.
    if (event_->detach(&arrival_)) arrival_.held = {};
    return ends;
  }

 private:
  class arrival final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<state> it = std::move(held);
      if (!it->decide()) return;
      it->cancel();
      it->then_->run();
    }
    counted_ptr<state> held; ///< reference to the state; set while the continuation is attached to
                             ///< the event
  };

  void happen() noexcept override {
    // On this thread, the event loop's, run_continuation() passes the continuation to the
    // completion thread, because the event loop's thread must not run user code.
    if (decide()) am::run_continuation(*then_);
  }

  /// Decides whether the event, the deadline or end() ends the wait: returns true for the first
  /// caller, and false for all later ones. Acquire-release, so that a later caller sees what
  /// begin() stored.
  [[nodiscard]] bool decide() noexcept {
    return !is_decided_.exchange(true, std::memory_order_acq_rel);
  }
  /// Acquire, paired with decide().
  [[nodiscard]] bool is_decided() const noexcept {
    return is_decided_.load(std::memory_order_acquire);
  }

  am::completion* event_;
  time_point deadline_;
  am::continuation* then_ = nullptr;
  arrival arrival_;
  std::atomic<bool> is_decided_{false};
};

ready_or_late::ready_or_late() noexcept = default;

ready_or_late::ready_or_late(am::completion* event, time_point deadline) {
  if (event != nullptr && deadline != no_deadline && !event->ready())
    state_ = counted_ptr<state>(new state(*event, deadline));
}

ready_or_late::ready_or_late(ready_or_late&& other) noexcept = default;
ready_or_late& ready_or_late::operator=(ready_or_late&& other) noexcept = default;
ready_or_late::~ready_or_late() = default;

void ready_or_late::begin(am::completion* event, am::continuation& then) noexcept {
  if (state_) {
    state_->begin(then);
  } else {
    run_when_ready(event, &then);
  }
}

bool ready_or_late::end(am::completion* event, const am::continuation* then) noexcept {
  if (state_) return state_->end();
  return event != nullptr && then != nullptr && event->detach(then);
}

} // namespace farcall::detail
