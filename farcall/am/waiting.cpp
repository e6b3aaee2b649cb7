#include <farcall/am/engine.hpp>
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/stack.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/base/error.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

/// How a thread waits for a reply, and what it does meanwhile: a thread that runs handlers runs
/// others, each on a fiber; a thread of the user's takes replies in and does nothing else.
namespace farcall::am {
namespace {

/// Iterations between two polls for requests to serve, a power of two. The line that is waited for
/// is polled in every iteration.
constexpr unsigned look_interval = 8;

/// Iterations between two polls of the lanes of other threads.
constexpr unsigned rare_look_interval = 64;

/// With so many lanes, looking for requests costs less than a turn.
constexpr std::uint32_t most_quiet_lanes = 8;

/// Queues what is to run when the replies are taken.
void pump(requester& l) noexcept {
  l.guard().lock();
  l.pump();
  continuation_list due = l.take_due();
  l.guard().unlock();
  queue_continuations(due);
}

} // namespace

// ---- what is waited for -------------------------------------------------------------------------

/// The reply to a call.
class engine::reply_wait final : public wait_condition {
 public:
  reply_wait(completion& c, requester& source, time_point deadline) noexcept
      : wait_condition(deadline), completion_(c), source_(source) {}

  state poll() noexcept override {
    if (!completion_.ready()) pump(source_);
    return completion_.ready() ? state::over : state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override { to.push_back(&source_.wakes()); }
  bool look_again() noexcept override {
    source_.arm();
    // In this order: another thread may take the reply in between.
    return source_.has_reply() || completion_.ready();
  }

 private:
  completion& completion_;
  requester& source_;
};

/// A local event, which may depend on any reply.
class engine::event_wait final : public wait_condition {
 public:
  event_wait(engine& e, local_completion& c, time_point deadline) noexcept
      : wait_condition(deadline), engine_(e), event_(c), replies_(e) {}

  state poll() noexcept override {
    if (event_.ready()) return state::over;
    // There may be more, and nobody notifies us of it.
    if (event_.help(deadline())) return event_.ready() ? state::over : state::advanced;
    engine_.pump_all(++turn_ % rare_look_interval == 0);
    continuation_list others = engine_.completions_.give_due();
    queue_continuations(others);
    return event_.ready() ? state::over : state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override {
    replies_.add_doorbells(to);
    if (event_.owner() == nullptr) to.push_back(&local_completion::doorbell_of_no_client());
  }
  bool look_again() noexcept override {
    return replies_.look_again() || engine_.completions_.has_due() || event_.ready();
  }

 private:
  engine& engine_;
  local_completion& event_;
  unsigned turn_ = 0;
  any_reply replies_;
};

/// Whatever the caller asks for. What changes it runs on this thread, or notifies.
class engine::state_wait final : public wait_condition {
 public:
  state_wait(engine& e, bool (*holds)(void*) noexcept, void* argument, bool is_notified,
             time_point deadline) noexcept
      : wait_condition(deadline), engine_(e), holds_(holds), argument_(argument),
        is_notified_(is_notified), replies_(e) {}

  state poll() noexcept override {
    if (holds_(argument_)) return state::over;
    engine_.pump_all(++turn_ % rare_look_interval == 0);
    continuation_list others = engine_.completions_.give_due();
    queue_continuations(others);
    return state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override { replies_.add_doorbells(to); }
  bool look_again() noexcept override {
    return replies_.look_again() || engine_.completions_.has_due() || holds_(argument_);
  }
  [[nodiscard]] time_point next_look() const noexcept override {
    return is_notified_ ? deadline() : std::min(deadline(), clock::now() + space_interval);
  }

 private:
  engine& engine_;
  bool (*holds_)(void*) noexcept;
  void* argument_;
  bool is_notified_;
  unsigned turn_ = 0;
  any_reply replies_;
};

/// Space in a lane, for which nobody notifies. Once it is over, the lane's guard is held.
class engine::space_wait final : public wait_condition {
 public:
  space_wait(requester& l, std::uint32_t bytes, time_point deadline) noexcept
      : wait_condition(deadline), lane_(l), bytes_(bytes) {}

  state poll() noexcept override {
    lane_.guard().lock();
    lane_.pump();
    if (continuation_list due = lane_.take_due(); !due.is_empty()) {
      // They may call in this very lane.
      lane_.guard().unlock();
      queue_continuations(due);
      return state::advanced;
    }
    if (!lane_.failure()) {
      space_ = lane_.try_reserve_request(bytes_);
      if (space_ == nullptr) {
        lane_.guard().unlock();
        return state::pending;
      }
    }
    is_over_ = true;
    return state::over;
  }
  void add_doorbells(std::vector<doorbell*>& to) override { to.push_back(&lane_.wakes()); }
  bool look_again() noexcept override {
    lane_.arm();
    return lane_.has_reply();
  }
  [[nodiscard]] time_point next_look() const noexcept override {
    return std::min(deadline(), clock::now() + space_interval);
  }

  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  [[nodiscard]] std::byte* space() const noexcept { return space_; }

 private:
  requester& lane_;
  std::uint32_t bytes_;
  std::byte* space_ = nullptr;
  bool is_over_ = false;
};

/// A lane that was closed and that the peer takes back, for which nobody notifies.
class engine::lane_wait final : public wait_condition {
 public:
  lane_wait(engine& e, node_id node, const lane_shape& shape, time_point deadline) noexcept
      : wait_condition(deadline), engine_(e), node_(node), shape_(shape) {}

  state poll() noexcept override {
    continuation_list due = engine_.reap();
    if (!due.is_empty()) {
      queue_continuations(due);
      return state::advanced;
    }
    try {
      opened_ = engine_.try_open(node_, shape_);
    } catch (...) {
      why_not_ = std::current_exception();
    }
    return opened_ || why_not_ ? state::over : state::pending;
  }
  void add_doorbells(std::vector<doorbell*>& to) override {
    to.push_back(&engine_.local_doorbell_);
  }
  bool look_again() noexcept override { return false; }
  [[nodiscard]] time_point next_look() const noexcept override {
    return std::min(deadline(), clock::now() + space_interval);
  }

  /// Throws what kept it from being opened.
  [[nodiscard]] endpoint opened() const {
    if (why_not_) std::rethrow_exception(why_not_);
    if (opened_) return *opened_;
    throw timeout("no lane to " + node_text(node_) +
                      " was free until the deadline: those that were closed are not taken back yet",
                  node_);
  }

 private:
  engine& engine_;
  node_id node_;
  lane_shape shape_;
  std::optional<endpoint> opened_;
  std::exception_ptr why_not_;
};

/// Replies to other calls of a thread that waits: what follows these may be what it waits for, by
/// way of other nodes.
class engine::own_replies_wait final : public wait_condition {
 public:
  explicit own_replies_wait(engine& e) noexcept : wait_condition(no_deadline), engine_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override { engine_.add_own_doorbells(to); }
  bool look_again() noexcept override {
    engine_.arm_drivers();
    return engine_.has_own_replies(true);
  }

 private:
  engine& engine_;
};

/// Requests for a worker whose handler waits, and replies that it takes in for others.
class engine::requests_wait final : public wait_condition {
 public:
  requests_wait(engine& e, worker& w) noexcept
      : wait_condition(no_deadline), worker_(w), progresses_(e.progresses(w)), replies_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override {
    worker_.add_doorbells(to);
    if (progresses_) replies_.add_doorbells(to);
  }
  bool look_again() noexcept override {
    worker_.owner().arm_drivers();
    worker_.arm();
    if (progresses_ && replies_.look_again()) return true;
    return worker_.has_work() || worker_.owner().arrivals_changed();
  }
  [[nodiscard]] time_point next_look() const noexcept override {
    // The node that the handler waits for may wait for replies of ours that found no space.
    return worker_.is_blocked() ? clock::now() + space_interval : no_deadline;
  }

 private:
  worker& worker_;
  bool progresses_;
  any_reply replies_;
};

/// Nothing: others have their turn.
class turn_of_others final : public wait_condition {
 public:
  turn_of_others() noexcept : wait_condition(no_deadline) {}
  state poll() noexcept override { return state::over; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool look_again() noexcept override { return true; }
};

// ---- lanes --------------------------------------------------------------------------------------

bool engine::pump_own() noexcept {
  if (cached_.serial != serial_) return false;
  bool has_taken = false;
  cached_.own->for_each([&](requester& l) {
    // With the guard: where nothing has failed, the lane's memory stays until it is released.
    l.guard().lock();
    has_taken |= l.pump() != 0;
    continuation_list due = l.take_due();
    l.guard().unlock();
    queue_continuations(due);
  });
  return has_taken;
}

void engine::add_own_doorbells(std::vector<doorbell*>& to) {
  if (cached_.serial != serial_) return;
  // A lane that was another thread's has that one's doorbell.
  cached_.own->for_each([&](const requester& l) { to.push_back(&l.wakes()); });
}

bool engine::has_own_replies(bool arming) noexcept {
  if (cached_.serial != serial_) return false;
  bool found = false;
  cached_.own->for_each([&](requester& l) {
    l.guard().lock();
    if (!l.failure()) {
      if (arming) l.arm();
      found |= l.has_reply();
    }
    l.guard().unlock();
  });
  return found;
}

void engine::pump_all(bool others) noexcept {
  (void)pump_own();
  if (!others) return;
  poll_drivers();
  continuation_list due;
  bool has_taken = false;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& l : lanes_) {
      l->progress();
      if (!l->has_reply() || !l->guard().try_lock()) continue;
      has_taken |= l->pump() != 0;
      continuation_list found = l->take_due();
      l->guard().unlock();
      // The lane's own thread may sleep for what we have just taken.
      notify_if_armed(l->wakes());
      due.append(found);
    }
  }
  if (has_taken) signal_completion();
  queue_continuations(due);
}

void engine::any_reply::add_doorbells(std::vector<doorbell*>& to) {
  to.push_back(&engine_.local_doorbell_);
  thread_lanes_seen_ = engine_.thread_lanes_made_.load(std::memory_order_seq_cst);
  const std::lock_guard guard(engine_.mutex_);
  for (const auto& p : engine_.thread_lanes_)
    to.push_back(&engine_.options_.doorbells[p->doorbell]);
}

bool engine::any_reply::look_again() {
  engine_.arm_all();
  return engine_.thread_lanes_made_.load(std::memory_order_seq_cst) != thread_lanes_seen_ ||
         engine_.has_replies();
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

// ---- waiting ------------------------------------------------------------------------------------

void engine::run_queued(fiber_scheduler* fibers) noexcept {
  if (!has_queued_continuations()) return;
  if (fibers != nullptr &&
      fibers->run([](void* /*argument*/) noexcept { run_queued_continuations(); }, nullptr)) {
    return;
  }
  run_queued_continuations();
}

void engine::sleep(std::initializer_list<wait_condition*> for_what, fiber_scheduler* fibers) {
  // Polling a condition may have made some due.
  if (has_queued_continuations()) return;
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
    if (each->look_again()) return;
    deadline = std::min(deadline, each->next_look());
  }
  const trace::span asleep(options_.recorder, trace::event_kind::sleep_begin);
  sleep_on(watched, deadline);
}

/// Runs one request on a fiber, and refuses it where none can be had. For a thread of the program's
/// several: it has no other loop that would serve them.
bool engine::serve_some(worker& w, fiber_scheduler& fibers) noexcept {
  w.owner().poll_drivers();
  if (w.owner().arrivals_changed()) w.owner().accept_lanes();
  w.progress();
  if (!w.has_work() && !w.is_blocked()) {
    w.note_idle();
    return false;
  }
  const auto serve_one = [](void* serving) noexcept { static_cast<worker*>(serving)->turn(true); };
  const auto serve_all = [](void* serving) noexcept { static_cast<worker*>(serving)->turn(false); };
  return fibers.run(w.owner().attached_ ? +serve_all : +serve_one, &w) || w.refuse_one();
}

template <class Condition>
void engine::wait_on_own_stack(Condition& c) {
  fiber_scheduler* const fibers = fiber_scheduler::mine();
  worker* const w = fibers != nullptr ? current_worker_ : nullptr;
  // One that is there for the requests only while it waits looks in every iteration.
  const unsigned between_looks = w != nullptr && w->owner().attached_ ? 0 : look_interval - 1;
  spin_wait spinning(options_.waiting, oversubscribed_, c.deadline());
  trace::late_span waiting(options_.recorder, trace::event_kind::wait_begin);
  for (;;) {
    const wait_condition::state now = c.poll();
    if (now == wait_condition::state::over) return;
    bool has_worked = now == wait_condition::state::advanced;
    if (has_queued_continuations()) {
      run_queued(fibers);
      has_worked = true;
    }
    if (fibers != nullptr && fibers->has_suspended()) {
      has_worked |= fibers->resume_ready();
      // That handler may have forked, and this be its child.
      require_own_process();
    }
    if (w != nullptr && (spinning.turn() & between_looks) == between_looks) {
      has_worked |= serve_some(*w, *fibers);
      require_own_process();
    }
    if (w != nullptr && spinning.turn() % take_over_interval == take_over_interval - 1) {
      has_worked |= w->owner().sharing_.take_over(*w);
    }
    if (spinning.turn() % rare_look_interval == rare_look_interval - 1) {
      waiting.begin();
      if (w != nullptr && progresses(*w)) {
        pump_all(true);
      } else {
        poll_drivers();
        (void)pump_own();
      }
    }
    if (has_worked) {
      (void)spinning.is_over();
      spinning.renew();
      if (spinning.deadline_has_passed()) return;
      continue;
    }
    if (!spinning.is_over()) continue;
    if (spinning.deadline_has_passed()) return;
    own_replies_wait others(*this);
    if (w != nullptr) {
      if (w->owner().sharing_.take_over(*w)) {
        spinning.renew();
        continue;
      }
      // A worker's own loop does so, too.
      if (w->owner().is_attached()) w->owner().reclaim(*w);
      requests_wait requests(*this, *w);
      const worker_group::sleep asleep(w->owner().sharing_, *w);
      ++w->counters().sleeps;
      sleep({&c, &others, &requests}, fibers);
    } else {
      if (cached_.serial == serial_) add_to(cached_.own->counters.sleeps, 1);
      sleep({&c, &others}, nullptr);
    }
    spinning.renew();
  }
}

template <class Condition>
void engine::wait_for(Condition& c) {
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
  wait_on_own_stack(c);
}

bool engine::spin_for_reply(completion& c, reply_count expected) noexcept {
  requester* const source = c.source();
  // A thread that runs handlers runs others meanwhile, and one of too many threads yields.
  return source != nullptr && fiber_scheduler::mine() == nullptr &&
         !oversubscribed_.load(std::memory_order_relaxed) && source->spin_for(c, expected);
}

bool engine::wait(completion& c, time_point deadline) {
  if (c.ready()) return true;
  if (requester* const source = c.source()) {
    reply_wait condition(c, *source, deadline);
    wait_for(condition);
  } else {
    event_wait condition(*this, static_cast<local_completion&>(c), deadline);
    wait_for(condition);
  }
  // Those of the replies that were taken in beside ours.
  run_queued(fiber_scheduler::mine());
  return c.ready();
}

bool engine::wait_alone(pending_call& c, time_point deadline) {
  reply_wait condition(c, *c.source(), deadline);
  spin_wait spinning(options_.waiting, oversubscribed_, deadline);
  while (condition.poll() != wait_condition::state::over) {
    if (!spinning.is_over()) continue;
    if (spinning.deadline_has_passed()) return c.ready();
    armed_doorbell wakes{&c.source()->wakes()};
    arm({&wakes, 1});
    if (!condition.look_again()) {
      const trace::span asleep(options_.recorder, trace::event_kind::sleep_begin);
      sleep_on({&wakes, 1}, deadline);
    }
    spinning.renew();
  }
  return true;
}

void engine::poll(completion& c) {
  if (c.source() != nullptr) {
    pump(*c.source());
  } else if (!static_cast<local_completion&>(c).help(time_point::min())) {
    pump_all(true);
  }
  fiber_scheduler* const fibers = fiber_scheduler::mine();
  run_queued(fibers);
  // What is polled for may depend on other handlers of this thread.
  if (fibers == nullptr || c.ready()) return;
  const worker::pause handler_waits;
  if (fibers->is_on_fiber()) {
    turn_of_others condition;
    fibers->wait(condition);
  } else if (current_worker_ != nullptr) {
    fibers->resume_ready();
    require_own_process();
    (void)serve_some(*current_worker_, *fibers);
  }
}

bool engine::is_quiet() noexcept {
  // Other lanes than the attached thread's are looked at by pump_all() only.
  if (++quiet_polls_ % rare_look_interval == 0) return false;
  const worker& w = *workers_.front();
  // A turn looks at few of many lanes.
  if (arrivals_changed() || w.has_work() || w.lanes_here() > most_quiet_lanes ||
      moves_bytes_.load(std::memory_order_relaxed) || attached_->is_on_fiber() ||
      attached_->has_suspended() || has_queued_continuations()) {
    return false;
  }
  if (cached_.serial != serial_) return true;
  bool has_replies = false;
  cached_.own->for_each([&](const requester& l) { has_replies |= l.has_reply(); });
  return !has_replies;
}

void engine::poll_all() {
  if (is_attached() && !is_forked() && is_quiet()) return;
  require_own_process();
  if (completion_descriptor* const d = descriptor_.load(std::memory_order_acquire)) d->clear();
  const engine* const before = std::exchange(progressing_, this);
  pump_all(true);
  run_queued(fiber_scheduler::mine());
  progressing_ = before;
  if (is_attached()) serve_attached();
}

inline bool engine::needs_whole_look(const worker& w) noexcept {
  if (arrivals_changed() || moves_bytes_.load(std::memory_order_relaxed) ||
      w.lanes_here() > most_quiet_lanes) {
    return true;
  }
  if (++polls_in_place_ % whole_look_interval != 0) return false;
  // That takes longer, so what has come goes first, as long as something else gets its turn too.
  return polls_in_place_ % longest_look_interval == 0 || !w.has_work();
}

void engine::poll_all_in_place() {
  // In a handler, others have their turn as in poll_all(). A child of a fork is not attached.
  worker* const w = current_worker_;
  if (w == nullptr || w != attached_worker_ || attached_->is_on_fiber() ||
      attached_->has_suspended() || this_stack.turn != nullptr || needs_whole_look(*w)) {
    poll_all();
    return;
  }
  if (w->turn_where_requests_are() == 0) return;
  require_own_process();
  run_queued(attached_.get());
}

void engine::attach() {
  if (fiber_scheduler::mine() != nullptr) {
    throw error("a thread that runs handlers already cannot do so for another job");
  }
  attached_ = std::make_unique<fiber_scheduler>();
  attached_worker_ = current_worker_ = workers_.front().get();
}

void engine::detach() noexcept {
  if (!is_attached()) return;
  workers_.front()->set_asleep(true);
  attached_worker_ = current_worker_ = nullptr;
  // What is suspended has nowhere to go on.
  if (attached_->has_suspended()) {
    fiber_scheduler::leave_thread();
    (void)attached_.release(); // NOLINT(bugprone-unused-return-value): it stays
  }
  attached_.reset();
}

bool engine::is_in_handler() noexcept {
  const fiber_scheduler* const fibers = fiber_scheduler::mine();
  return this_stack.turn != nullptr || (fibers != nullptr && fibers->is_on_fiber());
}

void engine::serve_attached() {
  fiber_scheduler& fibers = *attached_;
  if (fibers.is_on_fiber()) {
    // A handler: others have their turn.
    const worker::pause handler_waits;
    turn_of_others condition;
    fibers.wait(condition);
    return;
  }
  fibers.resume_ready();
  require_own_process();
  worker& w = *workers_.front();
  if (arrivals_changed()) {
    reclaim(w);
    accept_lanes();
  }
  const auto serve = [](void* serving) noexcept { static_cast<worker*>(serving)->turn(false); };
  if (!fibers.run(serve, &w)) (void)w.refuse_one();
  require_own_process();
  run_queued(&fibers);
}

bool engine::wait_until(bool (*holds)(void* argument) noexcept, void* argument, bool is_notified,
                        time_point deadline) {
  require_own_process();
  state_wait condition(*this, holds, argument, is_notified, deadline);
  wait_for(condition);
  require_own_process();
  run_queued(fiber_scheduler::mine());
  return holds(argument);
}

endpoint engine::wait_for_lane(node_id node, const lane_shape& shape, time_point deadline) {
  if (const std::optional<endpoint> opened = try_open(node, shape)) return *opened;
  lane_wait condition(*this, node, shape, deadline);
  wait_for(condition);
  return condition.opened();
}

std::byte* engine::wait_for_space(requester& l, std::uint32_t bytes, time_point deadline) {
  l.count_full();
  l.guard().unlock();
  space_wait condition(l, bytes, deadline);
  wait_for(condition);
  if (!condition.is_over()) {
    throw timeout("the lane to " + node_text(l.peer()) + " stayed full until the deadline",
                  l.peer());
  }
  return condition.space();
}

} // namespace farcall::am
