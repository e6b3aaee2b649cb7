// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/interrupt.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/stack.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/wait_conditions.hpp>
#include <farcall/am/wait_loop.hpp>
#include <farcall/base/error.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace farcall::am {
namespace {

/// Number of iterations between two polls for requests to serve; a power of two. The cache line for
/// which the thread waits is polled in every iteration.
constexpr unsigned poll_interval = 8;

/// One in this many calls of poll_all_in_place() makes a full poll, if no requests are waiting.
constexpr unsigned whole_poll_interval = 16;

/// One in this many calls of poll_all_in_place() makes a full poll, even if requests are waiting.
constexpr unsigned max_poll_interval = 1024;

/// Maximum number of lanes for which a check of all lanes for requests costs less than a full
/// iteration. A full iteration polls only some of many lanes.
constexpr std::uint32_t max_quiet_lanes = 8;

/// Suspends a fiber until the thread's other fibers have run once.
class turn_of_others final : public wait_condition {
 public:
  turn_of_others() noexcept : wait_condition(no_deadline) {}
  state poll() noexcept override { return state::over; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override { return true; }
};

/// Serves one request on a fiber, or refuses it if no fiber is free. On an attached thread, serves
/// a batch of requests, because an attached thread runs no worker loop.
bool serve_some(worker& w, fiber_scheduler& fibers) noexcept {
  w.owner().acceptor().poll_drivers();
  if (w.owner().acceptor().has_arrivals()) w.owner().acceptor().accept();
  w.progress();
  if (!w.has_work() && !w.is_blocked()) {
    w.note_idle();
    return false;
  }
  const auto serve_one = [](void* serving) noexcept { static_cast<worker*>(serving)->turn(true); };
  const auto serve_all = [](void* serving) noexcept { static_cast<worker*>(serving)->turn(false); };
  return fibers.run(w.owner().workers().is_served_by_caller() ? +serve_all : +serve_one, &w) ||
         w.refuse_one();
}

/// Functions with which run_wait_loop() waits for `c` on the stack of a thread. During the wait,
/// the thread also receives replies to its other calls. A thread that runs handlers also serves
/// requests, and resumes handlers whose wait is over.
template <class Condition>
class waiting_scope {
 public:
  waiting_scope(engine& e, Condition& c) noexcept
      : engine_(e), condition_(c), fibers_(fiber_scheduler::mine()),
        worker_(fibers_ != nullptr ? worker::current() : nullptr),
        between_polls_(worker_ != nullptr && pool().is_served_by_caller() ? 0 : poll_interval - 1),
        waiting_(e.recorder(), trace::event_kind::wait_begin) {}

  /// Returns how long the thread spins. An interruptible wait does not spin for longer than
  /// interrupt_interval, because the loop asks for interruptions only before and after sleeps.
  [[nodiscard]] wait_policy policy(wait_policy usual) const noexcept {
    if (interruption_.is_possible())
      usual.spin = std::min<std::chrono::nanoseconds>(usual.spin, interrupt_interval);
    return usual;
  }

  wait_condition::state poll(spin_wait& spinning) {
    const wait_condition::state now = condition_.poll();
    if (now == wait_condition::state::over) return now;
    bool has_worked = now == wait_condition::state::advanced;
    if (has_queued_continuations()) {
      fiber_scheduler::run_queued(fibers_);
      has_worked = true;
    }
    if (fibers_ != nullptr && fibers_->has_suspended()) {
      has_worked |= fibers_->resume_ready();
      // Check the process, because the resumed handler may have forked, so that this code runs in
      // the child.
      engine_.require_own_process();
    }
    if (worker_ != nullptr && (spinning.turn() & between_polls_) == between_polls_) {
      has_worked |= serve_some(*worker_, *fibers_);
      engine_.require_own_process();
    }
    if (worker_ != nullptr && spinning.turn() % worker_group::take_over_interval ==
                                  worker_group::take_over_interval - 1) {
      has_worked |= pool().sharing().take_over(*worker_);
    }
    if (spinning.turn() % rare_poll_interval == rare_poll_interval - 1) look_rarely();
    if (!has_worked) return wait_condition::state::pending;
    (void)spinning.is_over();
    return wait_condition::state::advanced;
  }

  /// Throws interrupted.
  [[nodiscard]] bool may_end(const spin_wait& spinning) {
    interruption_.ask_if_due();
    return spinning.deadline_has_passed();
  }
  [[nodiscard]] bool has_work() noexcept {
    return worker_ != nullptr && pool().sharing().take_over(*worker_);
  }
  /// Throws interrupted.
  void sleep() {
    own_replies_wait others(engine_);
    if (worker_ == nullptr) {
      if (thread_lanes* const own = engine_.lanes().find_own()) add_to(own->counters.sleeps, 1);
      interruption_.sleep_ended(
          engine_.waiter().sleep({&condition_, &others, &interruption_}, nullptr));
      return;
    }
    // Reclaim closed lanes here on an attached thread, because it runs no worker loop that would
    // reclaim them.
    if (pool().is_attached()) worker_->owner().acceptor().reclaim(*worker_);
    requests_wait requests(engine_, *worker_, true);
    interruption_.sleep_ended(engine_.waiter().sleep_as(
        *worker_, {&condition_, &others, &requests, &interruption_}, *fibers_));
  }

 private:
  /// Returns the worker pool of the thread's worker. It may differ from the pool of engine_,
  /// because a handler may wait for a call of another job.
  [[nodiscard]] worker_pool& pool() const noexcept { return worker_->owner().workers(); }

  void look_rarely() noexcept {
    waiting_.begin();
    if (worker_ != nullptr && engine_.workers().progresses(*worker_)) {
      engine_.waiter().pump(true);
    } else {
      engine_.acceptor().poll_drivers();
      engine_.waiter().pump(false);
    }
  }

  engine& engine_;
  Condition& condition_;
  fiber_scheduler* fibers_;
  worker* worker_;
  /// Bit mask, a power of two less one. The thread polls for requests in each iteration whose
  /// number has all of these bits set.
  unsigned between_polls_;
  trace::late_span waiting_;
  interruption interruption_;
};

/// Scope of a thread that waits for the reply to a call and does nothing else in that time.
class lone_scope {
 public:
  lone_scope(engine& e, reply_wait& reply, doorbell& wakes) noexcept
      : engine_(e), reply_(reply), wakes_{&wakes} {}

  wait_condition::state poll(spin_wait& /*spinning*/) noexcept { return reply_.poll(); }
  [[nodiscard]] static bool may_end(const spin_wait& spinning) noexcept {
    return spinning.deadline_has_passed();
  }
  [[nodiscard]] static bool has_work() noexcept { return false; }
  void sleep() noexcept {
    arm({&wakes_, 1});
    if (reply_.poll_again()) return;
    const trace::span asleep(engine_.recorder(), trace::event_kind::sleep_begin);
    sleep_on({&wakes_, 1}, reply_.deadline());
  }

 private:
  engine& engine_;
  reply_wait& reply_;
  armed_doorbell wakes_;
};

} // namespace

waiter::waiter(engine& owner, const engine_options& options, doorbell& local) noexcept
    : owner_(owner), options_(options), lanes_(owner.lanes()), acceptor_(owner.acceptor()),
      workers_(owner.workers()), local_(local) {}

waiter::~waiter() { delete descriptor_.load(std::memory_order_relaxed); }

void waiter::pump(bool others) noexcept {
  (void)lanes_.pump_own();
  if (!others) return;
  acceptor_.poll_drivers();
  continuation_list due;
  if (lanes_.pump_all(due)) signal_completion();
  queue_continuations(due);
}

bool waiter::sleep(std::initializer_list<wait_condition*> for_what, fiber_scheduler* fibers) {
  // Do not sleep if polling the conditions has queued continuations, because they must run first.
  if (has_queued_continuations()) return false;
  std::vector<wait_condition*> conditions(for_what);
  if (fibers != nullptr) {
    conditions.insert(conditions.end(), fibers->suspended().begin(), fibers->suspended().end());
  }
  std::vector<doorbell*> doorbells;
  for (wait_condition* each : conditions)
    each->add_doorbells(doorbells);
  std::sort(doorbells.begin(), doorbells.end());
  doorbells.erase(std::unique(doorbells.begin(), doorbells.end()), doorbells.end());
  std::vector<armed_doorbell> watched;
  watched.reserve(doorbells.size());
  for (doorbell* b : doorbells)
    watched.push_back({b});
  arm(watched);
  time_point deadline = no_deadline;
  for (wait_condition* each : conditions) {
    if (each->poll_again()) return false;
    deadline = std::min(deadline, each->next_poll());
  }
  const trace::span asleep(options_.recorder, trace::event_kind::sleep_begin);
  return sleep_on(watched, deadline);
}

bool waiter::sleep_as(worker& w, std::initializer_list<wait_condition*> conditions,
                      fiber_scheduler& fibers) {
  const worker_group::sleep asleep(w.owner().workers().sharing(), w);
  ++w.counters().sleeps;
  return sleep(conditions, &fibers);
}

template <class Condition>
void waiter::wait_for(Condition& c) {
  const worker::pause handler_waits;
  fiber_scheduler* const fibers = fiber_scheduler::mine();
  if (fibers != nullptr && fibers->is_on_fiber()) {
    fibers->wait(c);
    return;
  }
  if (this_stack.runs_continuations && stack_is_low()) {
    throw nested_too_deep("too many continuations wait inside each other; a continuation may "
                          "return a future, or be a coroutine, instead of waiting");
  }
  waiting_scope<Condition> scope(owner_, c);
  spin_wait spinning(scope.policy(options_.waiting), oversubscribed_, c.deadline());
  run_wait_loop(scope, spinning);
}

bool waiter::wait(completion& c, time_point deadline) {
  if (c.ready()) return true;
  if (requester* const source = c.source()) {
    reply_wait condition(c, *source, deadline);
    wait_for(condition);
  } else {
    // In an interruptible wait, do not help with work that could last longer than until the next
    // time at which the thread asks for interruptions.
    const time_point help_until = this_stack.interrupt != nullptr
                                      ? std::min(deadline, clock::now() + interrupt_interval)
                                      : deadline;
    event_wait condition(owner_, static_cast<local_completion&>(c), deadline, help_until);
    wait_for(condition);
  }
  // Run the continuations of replies that arrived together with the awaited one.
  fiber_scheduler::run_queued(fiber_scheduler::mine());
  return c.ready();
}

bool waiter::wait_alone(pending_call& c, time_point deadline) {
  reply_wait condition(c, *c.source(), deadline);
  spin_wait spinning(options_.waiting, oversubscribed_, deadline);
  lone_scope scope(owner_, condition, c.source()->wakes());
  run_wait_loop(scope, spinning);
  return c.ready();
}

void waiter::poll(completion& c) {
  if (c.source() != nullptr) {
    take_replies(*c.source());
  } else if (!static_cast<local_completion&>(c).help(time_point::min())) {
    pump(true);
  }
  fiber_scheduler* const fibers = fiber_scheduler::mine();
  fiber_scheduler::run_queued(fibers);
  // While the completion is not ready, let other handlers of this thread run, because the
  // completion may depend on them.
  if (fibers == nullptr || c.ready()) return;
  const worker::pause handler_waits;
  if (fibers->is_on_fiber()) {
    turn_of_others condition;
    fibers->wait(condition);
  } else if (worker::current() != nullptr) {
    fibers->resume_ready();
    owner_.require_own_process();
    (void)serve_some(*worker::current(), *fibers);
  }
}

bool waiter::is_quiet() noexcept {
  // Return false once in rare_poll_interval calls, so that the caller also polls the lanes of other
  // threads. The checks below leave these lanes out.
  if (++quiet_polls_ % rare_poll_interval == 0) return false;
  const worker& w = workers_.first();
  // Return false without has_work() if the worker has more than max_quiet_lanes lanes. In that case
  // has_work(), which checks all lanes, costs more than a full iteration, which polls only some of
  // them.
  if (acceptor_.has_arrivals() || w.lanes_here() > max_quiet_lanes || w.has_work() ||
      lanes_.has_drivers() || workers_.attached()->is_on_fiber() ||
      workers_.attached()->has_suspended() || has_queued_continuations()) {
    return false;
  }
  const thread_lanes* const own = lanes_.find_own();
  if (own == nullptr) return true;
  bool has_replies = false;
  own->for_each([&](const requester& l) { has_replies |= l.has_reply(); });
  return !has_replies;
}

void waiter::poll_all() {
  if (workers_.is_attached() && !owner_.is_forked() && is_quiet()) return;
  owner_.require_own_process();
  if (completion_descriptor* const d = descriptor_.load(std::memory_order_acquire)) d->clear();
  const waiter* const before = std::exchange(polling_, this);
  pump(true);
  fiber_scheduler::run_queued(fiber_scheduler::mine());
  polling_ = before;
  if (workers_.is_attached()) serve_attached();
}

bool waiter::needs_whole_poll(const worker& w) noexcept {
  if (acceptor_.has_arrivals() || lanes_.has_drivers() || w.lanes_here() > max_quiet_lanes) {
    return true;
  }
  if (++polls_in_place_ % whole_poll_interval != 0) return false;
  // While requests wait, serve them instead of making a full poll, which takes longer. After
  // max_poll_interval calls, make the full poll in any case.
  return polls_in_place_ % max_poll_interval == 0 || !w.has_work();
}

void waiter::poll_all_in_place() {
  // Serve requests in place only on the attached thread, outside handlers. Otherwise call
  // poll_all(), which inside a handler lets other handlers run. A forked child also calls
  // poll_all(), because its thread is no longer attached.
  worker* const w = worker::current();
  if (w == nullptr || w != workers_.attached_worker() || workers_.attached()->is_on_fiber() ||
      workers_.attached()->has_suspended() || this_stack.turn != nullptr || needs_whole_poll(*w)) {
    poll_all();
    return;
  }
  if (w->turn_where_requests_are() == 0) return;
  owner_.require_own_process();
  fiber_scheduler::run_queued(workers_.attached());
}

void waiter::serve_attached() {
  fiber_scheduler& fibers = *workers_.attached();
  if (fibers.is_on_fiber()) {
    // Inside a handler, let other handlers run during this call.
    const worker::pause handler_waits;
    turn_of_others condition;
    fibers.wait(condition);
    return;
  }
  fibers.resume_ready();
  owner_.require_own_process();
  worker& w = workers_.first();
  if (acceptor_.has_arrivals()) {
    acceptor_.reclaim(w);
    acceptor_.accept();
  }
  const auto serve = [](void* serving) noexcept { static_cast<worker*>(serving)->turn(false); };
  if (!fibers.run(serve, &w)) (void)w.refuse_one();
  owner_.require_own_process();
  fiber_scheduler::run_queued(&fibers);
}

bool waiter::wait_until(bool (*holds)(void* argument) noexcept, void* argument, bool is_notified,
                        time_point deadline) {
  owner_.require_own_process();
  state_wait condition(owner_, holds, argument, is_notified, deadline);
  wait_for(condition);
  owner_.require_own_process();
  fiber_scheduler::run_queued(fiber_scheduler::mine());
  return holds(argument);
}

endpoint waiter::wait_for_lane(node_id node, const lane_shape& shape, time_point deadline) {
  if (const std::optional<endpoint> opened = lanes_.try_open(node, shape)) return *opened;
  if (deadline == without_waiting)
    throw timeout("no lane to " + node_text(node) + " is free now", node);
  lane_wait condition(owner_, node, shape, deadline);
  wait_for(condition);
  return condition.opened();
}

std::byte* waiter::wait_for_space(requester& l, std::uint32_t bytes, time_point deadline) {
  if (deadline == without_waiting && l.failure()) return nullptr;
  l.count_full();
  l.guard().unlock();
  if (deadline == without_waiting)
    throw timeout("the lane to " + node_text(l.peer()) + " is full now", l.peer());
  space_wait condition(l, bytes, deadline);
  wait_for(condition);
  if (!condition.is_over()) {
    throw timeout("the lane to " + node_text(l.peer()) + " stayed full until the deadline",
                  l.peer());
  }
  return condition.space();
}

} // namespace farcall::am
