#include <farcall/am/deadline_thread.hpp>
#include <farcall/offload/deadline_resume.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/ready_or_late.hpp>

#include <atomic>
#include <utility>

namespace farcall::detail {

/// Held by whoever watches, by the event until that is ready, and by the deadline thread until
/// then.
class ready_or_late::state final : public am::timed_event {
 public:
  state(am::completion& event, time_point deadline)
      : timed_event(owner_of(event)), event_(&event), deadline_(deadline) {
    am::deadline_thread::of_process().prepare();
  }

  void begin(am::continuation& then) noexcept {
    const counted_ptr<state> self(this);
    then_ = &then;
    arrival_.held = self;
    event_->attach(&arrival_);
    am::deadline_thread& deadlines = am::deadline_thread::of_process();
    deadlines.set(*this, deadline_);
    // Who has decided before found nothing to take back.
    if (is_decided()) deadlines.take_back(*this);
  }

  [[nodiscard]] bool end() noexcept {
    const bool ends = decide();
    if (ends) am::deadline_thread::of_process().take_back(*this);
    // Else it is about to run, and lets go by itself.
    if (event_->detach(&arrival_)) arrival_.held = {};
    return ends;
  }

 private:
  class arrival final : public am::continuation {
   public:
    void run() noexcept override {
      const counted_ptr<state> it = std::move(held);
      if (!it->decide()) return;
      am::deadline_thread::of_process().take_back(*it);
      it->then_->run();
    }
    counted_ptr<state> held; ///< while it is attached
  };

  void happen() noexcept override {
    // Elsewhere: that is where continuations of this thread go.
    if (decide()) am::run_continuation(*then_);
  }

  /// Acquire-release: whoever comes second sees all that was set up. True for the first.
  [[nodiscard]] bool decide() noexcept {
    return !is_decided_.exchange(true, std::memory_order_acq_rel);
  }
  /// Acquire; partner: decide().
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
