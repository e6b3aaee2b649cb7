// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/live_clients.hpp>
#include <farcall/am/timed_event.hpp>
#include <farcall/async/deadline_resume.hpp>
#include <farcall/async/node.hpp>
#include <farcall/async/shared_future.hpp>
#include <farcall/base/error.hpp>

#include <atomic>

namespace farcall::detail {

am::client* owner_of(const am::completion& event) noexcept {
  am::client* const owner = event.owner();
  if (owner != nullptr && (event.source() != nullptr || am::live_clients::has(owner))) return owner;
  try {
    return only_client();
  } catch (const error&) {
    return nullptr;
  }
}

/// State of one wait with a deadline. The awaiter holds a reference to this object. The event and
/// the event loop each hold another reference, until they do not use the object any more.
class deadline_resume::state final : public am::timed_event {
 public:
  state(std::coroutine_handle<> waiting, am::completion& event, many_continuations* all)
      : timed_event(owner_of(event)), waiting_(waiting), event_(&event), all_(all) {}

  /// Starts the wait. The caller must hold a reference, because the coroutine may be resumed, and
  /// the awaiter destroyed, before begin() returns.
  void begin(time_point deadline) {
    held_by_awaiter = counted_ptr<state>(this);
    // Attach to the event before the timer is set, and do not use the event afterwards. When the
    // timer expires, the coroutine is resumed and may release the event.
    arrival_.held = counted_ptr<state>(this);
    if (all_ != nullptr) {
      all_->attach(&arrival_);
    } else {
      event_->attach(&arrival_);
    }
    set(deadline);
    // If the event became ready before set(), its continuation has found no timer to cancel, so
    // cancel the timer now.
    if (now() != outcome::pending) cancel();
  }

  /// Ends the wait, because the coroutine was resumed or is being destroyed.
  void end() noexcept {
    const counted_ptr<state> it = std::move(held_by_awaiter);
    // Don't use an event that has become ready, because the event may have been destroyed together
    // with its result.
    if (now() == outcome::arrived) return;
    (void)move_on(outcome::pending, outcome::ended);
    (void)move_on(outcome::late, outcome::ended);
    cancel();
    const bool is_back = all_ != nullptr ? all_->detach(&arrival_) : event_->detach(&arrival_);
    // If detach() returns false, another thread is about to run the continuation, which then
    // releases its own reference to this object.
    if (is_back) arrival_.held = {};
  }

  [[nodiscard]] bool is_late() const noexcept { return now() == outcome::resumed_late; }

  counted_ptr<state> held_by_awaiter;

 private:
  enum class outcome : unsigned char {
    pending,
    arrived, ///< the event was ready, and the coroutine was resumed
    late,    ///< the deadline has passed, and another thread will resume the coroutine
    resumed_late,
    ended ///< the wait was ended, so the coroutine must not be resumed
  };

  /// Changes the outcome from `from` to `to`. Returns false if the outcome is not `from`.
  /// Acquire-release, so that the caller sees what begin() stored, and the effects of earlier
  /// changes.
  bool move_on(outcome from, outcome to) noexcept {
    return outcome_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                            std::memory_order_acquire);
  }
  /// Acquire, paired with move_on().
  [[nodiscard]] outcome now() const noexcept { return outcome_.load(std::memory_order_acquire); }

  class arrival final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<state> it = std::move(held);
      if (!it->move_on(outcome::pending, outcome::arrived)) return;
      it->cancel();
      it->waiting_.resume();
    }
    counted_ptr<state> held; ///< reference to the state; set while the continuation is attached to
                             ///< the event
  };

  class lateness final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<state> it = std::move(held);
      if (it->move_on(outcome::late, outcome::resumed_late)) it->waiting_.resume();
    }
    counted_ptr<state> held; ///< reference to the state; set while the continuation is due to run
  };

  void happen() noexcept override {
    if (!move_on(outcome::pending, outcome::late)) return;
    lateness_.held = counted_ptr<state>(this);
    // On this thread, the event loop's, run_continuation() passes the continuation to the
    // completion thread, because the event loop's thread must not run user code.
    am::run_continuation(lateness_);
  }

  std::coroutine_handle<> waiting_;
  am::completion* event_;
  many_continuations* all_;
  arrival arrival_;
  lateness lateness_;
  std::atomic<outcome> outcome_{outcome::pending};
};

void deadline_resume::begin(std::coroutine_handle<> waiting, am::completion& event,
                            many_continuations* all, time_point deadline) {
  const counted_ptr<state> it(new state(waiting, event, all));
  state_ = &*it;
  try {
    it->begin(deadline);
  } catch (...) {
    state_ = nullptr;
    throw;
  }
}

void deadline_resume::end() noexcept { state_->end(); }

bool deadline_resume::is_late() const noexcept { return state_ != nullptr && state_->is_late(); }

} // namespace farcall::detail
