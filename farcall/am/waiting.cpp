#include <farcall/am/engine.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/stack.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <optional>
#include <utility>

/// How a thread waits for a reply, and what it does meanwhile.
namespace farcall::am {
namespace {

/// Iterations between two polls for what others ask of a waiting thread. The line that is waited
/// for is polled in every iteration.
constexpr unsigned look_interval = 8;

/// Iterations between two polls of the lanes of other threads.
constexpr unsigned rare_look_interval = 64;

void pump(requester& l) {
  l.guard().lock();
  l.pump();
  continuation* due = l.take_due();
  l.guard().unlock();
  if (due != nullptr) [[unlikely]]
    requester::run(due);
}

} // namespace

void engine::pump_all(bool others) {
  if (cached_.serial == serial_) {
    for (requester* l : cached_.own->lanes) {
      if (l != nullptr) pump(*l);
    }
  }
  if (!others) return;
  continuation* due = nullptr;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& l : lanes_) {
      l->progress();
      if (!l->has_reply() || !l->guard().try_lock()) continue;
      l->pump();
      continuation* found = l->take_due();
      l->guard().unlock();
      // The lane's own thread may sleep for what we have just taken.
      notify_if_armed(l->wakes());
      while (found != nullptr) {
        continuation* next = found->next;
        found->next = due;
        due = found;
        found = next;
      }
    }
  }
  requester::run(due);
}

bool engine::has_replies() {
  const std::lock_guard guard(mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l->has_reply(); });
}

void engine::arm_all() noexcept {
  const std::lock_guard guard(mutex_);
  for (const auto& l : lanes_)
    l->arm();
}

/// What a thread that waits does besides: it serves what comes in.
class engine::waiter {
 public:
  waiter(engine& e, time_point deadline) noexcept
      : spinning(e.options_.waiting, e.oversubscribed_, deadline), engine_(e),
        worker_(current_worker_ != nullptr && current_worker_->is_part_of(e) ? current_worker_
                : e.options_.waiters_serve                                   ? e.workers_[0].get()
                                                                             : nullptr),
        may_mask_(worker_ != nullptr && worker_ != current_worker_) {}
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;
  ~waiter() { stop_looking(); }

  /// Serves a request that has come in; true when there was one.
  bool serve() noexcept {
    if (worker_ == nullptr) return false;
    if (engine_.arrivals_changed()) engine_.accept_lanes();
    if (!masks_ && may_mask_ && engine_.mask_.is_in_use()) masks_ = engine_.mask_.mask();
    worker_->progress();
    if (!(worker_->has_work() || worker_->is_blocked()) || stack_is_low()) return false;
    // The handler may take long, and the requests of other lanes must not wait for it.
    if (std::exchange(masks_, false)) engine_.mask_.unmask();
    ++serving_depth_;
    const bool served = worker_->turn(true) != 0;
    --serving_depth_;
    owes_look_ = true;
    if (served && may_mask_) masks_ = engine_.mask_.mask();
    return served;
  }

  /// Before the thread sleeps or goes away: what it would have served is left to others.
  void stop_looking() noexcept {
    if (std::exchange(masks_, false)) {
      engine_.mask_.unmask();
      owes_look_ = true;
    }
    if (!std::exchange(owes_look_, false)) return;
    // Others that polled may have found the lane held by us; we have let go of it before this poll.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (worker_->has_work() || worker_->is_blocked() || engine_.arrivals_changed()) {
      notify(worker_->wakes());
    }
  }

  spin_wait spinning;

 private:
  engine& engine_;
  worker* worker_;
  bool may_mask_;
  bool masks_ = false;
  bool owes_look_ = false; ///< it has held a lane
};

worker* engine::worker_to_serve() const noexcept {
  if (current_worker_ != nullptr && current_worker_->is_part_of(*this)) return current_worker_;
  // A waiting thread that is inside a handler holds its lane: nobody else can serve it.
  return options_.waiters_serve && serving_depth_ > 0 ? workers_[0].get() : nullptr;
}

std::vector<armed_doorbell> engine::doorbells_to_arm(completion& c) {
  std::vector<doorbell*> doorbells;
  if (c.source() != nullptr) {
    doorbells.push_back(&c.source()->wakes());
  } else {
    doorbells.push_back(&local_doorbell_);
    const std::lock_guard guard(mutex_);
    for (const auto& p : thread_lanes_)
      doorbells.push_back(&options_.doorbells[p->doorbell]);
  }
  if (const worker* w = worker_to_serve()) doorbells.push_back(&w->wakes());
  std::sort(doorbells.begin(), doorbells.end());
  doorbells.erase(std::unique(doorbells.begin(), doorbells.end()), doorbells.end());
  std::vector<armed_doorbell> watched;
  watched.reserve(doorbells.size());
  for (doorbell* b : doorbells)
    watched.push_back({b});
  return watched;
}

bool engine::wait(completion& c, time_point deadline) {
  if (c.ready()) return true;
  requester* const source = c.source();
  waiter self(*this, deadline);
  for (;;) {
    if (source != nullptr) {
      pump(*source);
    } else if (static_cast<local_completion&>(c).help()) {
      // There may be more, and nobody notifies us of it.
      self.spinning.renew();
    } else {
      pump_all(self.spinning.turn() % rare_look_interval == rare_look_interval - 1);
    }
    if (c.ready()) return true;
    if (self.spinning.turn() % look_interval == look_interval - 1 && self.serve()) {
      if (self.spinning.deadline_has_passed()) return c.ready();
      self.spinning.renew();
      continue;
    }
    if (!self.spinning.is_over()) continue;
    if (self.spinning.deadline_has_passed()) return c.ready();
    self.stop_looking();
    sleep_until_ready(c, deadline);
    self.spinning.renew();
  }
}

void engine::sleep_until_ready(completion& c, time_point deadline) {
  worker* const held = worker_to_serve();
  const std::uint32_t thread_lanes_before = thread_lanes_made_.load(std::memory_order_seq_cst);
  std::vector<armed_doorbell> doorbells = doorbells_to_arm(c);
  // A thread that masks the doorbell serves requests, not the replies that notify the same
  // doorbell.
  std::optional<doorbell_mask::only_doorbell_wakes> needs_doorbell;
  if (std::any_of(doorbells.begin(), doorbells.end(),
                  [&](const armed_doorbell& b) { return b.which == &workers_[0]->wakes(); })) {
    needs_doorbell.emplace(mask_);
  }
  arm(doorbells);
  requester* const source = c.source();
  if (source != nullptr) {
    source->arm();
  } else {
    arm_all();
  }
  if (held != nullptr) held->arm();
  if (c.ready() || thread_lanes_made_.load(std::memory_order_seq_cst) != thread_lanes_before ||
      (source != nullptr ? source->has_reply() : has_replies()) ||
      (held != nullptr && (held->has_work() || arrivals_changed()))) {
    return;
  }
  const bool briefly = held != nullptr && held->is_blocked();
  sleep_on(doorbells, briefly ? std::min(deadline, clock::now() + space_interval) : deadline);
}

void engine::poll(completion& c) {
  if (c.source() != nullptr) {
    pump(*c.source());
  } else if (!static_cast<local_completion&>(c).help()) {
    pump_all(true);
  }
}

std::byte* engine::wait_for_space(requester& l, std::uint32_t bytes, time_point deadline) {
  waiter self(*this, deadline);
  for (;;) {
    l.pump();
    continuation* due = l.take_due();
    if (due == nullptr) {
      if (l.failure()) return nullptr;
      if (std::byte* arguments = l.try_reserve_request(bytes)) return arguments;
    }
    l.guard().unlock();
    requester::run(due);
    const bool has_served = self.serve();
    if (has_served || self.spinning.is_over()) {
      if (self.spinning.deadline_has_passed()) {
        throw timeout("the lane to " + node_text(l.peer()) + " stayed full until the deadline",
                      l.peer());
      }
      if (!has_served) {
        self.stop_looking();
        armed_doorbell wakes{&l.wakes()};
        arm({&wakes, 1});
        l.arm();
        if (!l.has_reply()) {
          sleep_on({&wakes, 1}, std::min(deadline, clock::now() + space_interval));
        }
      }
      self.spinning.renew();
    }
    l.guard().lock();
  }
}

} // namespace farcall::am
