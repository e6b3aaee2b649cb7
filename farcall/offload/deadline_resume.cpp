#include <farcall/am/deadline_thread.hpp>
#include <farcall/am/live_clients.hpp>
#include <farcall/base/error.hpp>
#include <farcall/offload/deadline_resume.hpp>
#include <farcall/offload/node.hpp>
#include <farcall/offload/shared_future.hpp>

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

/// Held by the awaiter, by the event until that is ready, and by the deadline thread until then.
class deadline_resume::state final : public am::timed_event {
 public:
  state(std::coroutine_handle<> waiting, am::completion& event, many_continuations* all)
      : timed_event(owner_of(event)), waiting_(waiting), event_(&event), all_(all) {}

  /// The caller holds it: the coroutine, and its awaiter, may be gone on return.
  void begin(time_point deadline) {
    am::deadline_thread& deadlines = am::deadline_thread::of_process();
    deadlines.prepare();
    held_by_awaiter = counted_ptr<state>(this);
    // The event first: at the deadline the coroutine goes on, and lets go of it.
    arrival_.held = counted_ptr<state>(this);
    if (all_ != nullptr) {
      all_->attach(&arrival_);
    } else {
      event_->attach(&arrival_);
    }
    deadlines.set(*this, deadline);
    // Who has ended the wait before found nothing to take back.
    if (now() != outcome::pending) deadlines.take_back(*this);
  }

  /// The coroutine has gone on, or is destroyed.
  void end() noexcept {
    const counted_ptr<state> it = std::move(held_by_awaiter);
    // The event may be gone with its result.
    if (now() == outcome::arrived) return;
    (void)move_on(outcome::pending, outcome::ended);
    (void)move_on(outcome::late, outcome::ended);
    am::deadline_thread::of_process().take_back(*this);
    const bool is_back = all_ != nullptr ? all_->detach(&arrival_) : event_->detach(&arrival_);
    // Else it is about to run, and lets go by itself.
    if (is_back) arrival_.held = {};
  }

  [[nodiscard]] bool is_late() const noexcept { return now() == outcome::resumed_late; }

  counted_ptr<state> held_by_awaiter;

 private:
  enum class outcome : unsigned char {
    pending,
    arrived, ///< and resumed
    late,    ///< to be resumed on another thread
    resumed_late,
    ended ///< never resumed
  };

  /// Acquire-release: whoever decides sees all that was set up, and what was decided before.
  bool move_on(outcome from, outcome to) noexcept {
    return outcome_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                            std::memory_order_acquire);
  }
  /// Acquire; partner: move_on().
  [[nodiscard]] outcome now() const noexcept { return outcome_.load(std::memory_order_acquire); }

  class arrival final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<state> it = std::move(held);
      if (!it->move_on(outcome::pending, outcome::arrived)) return;
      am::deadline_thread::of_process().take_back(*it);
      it->waiting_.resume();
    }
    counted_ptr<state> held; ///< while it is attached
  };

  class lateness final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<state> it = std::move(held);
      if (it->move_on(outcome::late, outcome::resumed_late)) it->waiting_.resume();
    }
    counted_ptr<state> held; ///< while it is to run
  };

  void happen() noexcept override {
    if (!move_on(outcome::pending, outcome::late)) return;
    lateness_.held = counted_ptr<state>(this);
    // Elsewhere: that is where continuations of this thread go.
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
