#include <farcall/am/engine.hpp>
#include <farcall/am/patience.hpp>
#include <farcall/am/stack.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <optional>
#include <utility>

/// How a thread waits for an answer, and what it does meanwhile.
namespace farcall::am {
namespace {

/// Turns between two looks at what others ask of a waiting thread. The line that is waited for is
/// looked at every turn.
constexpr unsigned look_interval = 8;

/// Turns between two looks at the lanes of other threads.
constexpr unsigned rare_look_interval = 64;

void pump(lane& l) {
  l.guard().lock();
  l.pump();
  continuation* due = l.take_due();
  l.guard().unlock();
  if (due != nullptr) [[unlikely]]
    lane::run(due);
}

} // namespace

void engine::pump_all(bool others) {
  if (cached_.serial == serial_) {
    for (lane* l : cached_.own->lanes) {
      if (l != nullptr) pump(*l);
    }
  }
  if (!others) return;
  continuation* due = nullptr;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& l : lanes_) {
      l->progress();
      if (!l->has_answer() || !l->guard().try_lock()) continue;
      l->pump();
      continuation* found = l->take_due();
      l->guard().unlock();
      // The lane's own thread may sleep for what we have just taken.
      ring_if_asleep(l->wakes());
      while (found != nullptr) {
        continuation* next = found->next;
        found->next = due;
        due = found;
        found = next;
      }
    }
  }
  lane::run(due);
}

bool engine::has_answers() {
  const std::lock_guard guard(mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l->has_answer(); });
}

void engine::watch_all() noexcept {
  const std::lock_guard guard(mutex_);
  for (const auto& l : lanes_)
    l->watch();
}

/// What a thread that waits does besides: it serves what comes in.
class engine::waiter {
 public:
  waiter(engine& e, time_point deadline) noexcept
      : spinning(e.options_.waiting, e.crowded_, deadline), engine_(e),
        worker_(current_worker_ != nullptr && current_worker_->is_part_of(e) ? current_worker_
                : e.options_.waiters_serve                                   ? e.workers_[0].get()
                                                                             : nullptr),
        may_cover_(worker_ != nullptr && worker_ != current_worker_) {}
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;
  ~waiter() { stop_looking(); }

  /// Serves a request that has come in; true when there was one.
  bool serve() noexcept {
    if (worker_ == nullptr) return false;
    if (engine_.arrivals_changed()) engine_.accept_lanes();
    if (!covers_ && may_cover_ && engine_.cover_.is_usual()) covers_ = engine_.cover_.lower();
    worker_->progress();
    if (!(worker_->has_work() || worker_->is_blocked()) || stack_is_low()) return false;
    // The handler may take long, and the requests of other lanes must not wait for it.
    if (std::exchange(covers_, false)) engine_.cover_.raise();
    ++serving_depth_;
    const bool served = worker_->turn(true) != 0;
    --serving_depth_;
    owes_look_ = true;
    if (served && may_cover_) covers_ = engine_.cover_.lower();
    return served;
  }

  /// Before the thread sleeps or goes away: what it would have served is left to others.
  void stop_looking() noexcept {
    if (std::exchange(covers_, false)) {
      engine_.cover_.raise();
      owes_look_ = true;
    }
    if (!std::exchange(owes_look_, false)) return;
    // Others that looked may have found the lane held by us; we have let go of it before this look.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (worker_->has_work() || worker_->is_blocked() || engine_.arrivals_changed()) {
      ring(worker_->wakes());
    }
  }

  patience spinning;

 private:
  engine& engine_;
  worker* worker_;
  bool may_cover_;
  bool covers_ = false;
  bool owes_look_ = false; ///< it has held a lane
};

worker* engine::worker_to_serve() const noexcept {
  if (current_worker_ != nullptr && current_worker_->is_part_of(*this)) return current_worker_;
  // A waiting thread that is inside a handler holds its lane: nobody else can serve it.
  return options_.waiters_serve && serving_depth_ > 0 ? workers_[0].get() : nullptr;
}

std::vector<watched_bell> engine::bells_to_watch(completion& c) {
  std::vector<bell*> bells;
  if (c.source() != nullptr) {
    bells.push_back(&c.source()->wakes());
  } else {
    bells.push_back(&local_bell_);
    const std::lock_guard guard(mutex_);
    for (const auto& p : ports_)
      bells.push_back(&options_.bells[p->bell]);
  }
  if (const worker* w = worker_to_serve()) bells.push_back(&w->wakes());
  std::sort(bells.begin(), bells.end());
  bells.erase(std::unique(bells.begin(), bells.end()), bells.end());
  std::vector<watched_bell> watched;
  watched.reserve(bells.size());
  for (bell* b : bells)
    watched.push_back({b});
  return watched;
}

bool engine::wait(completion& c, time_point deadline) {
  if (c.ready()) return true;
  lane* const source = c.source();
  waiter self(*this, deadline);
  for (;;) {
    if (source != nullptr) {
      pump(*source);
    } else if (static_cast<local_completion&>(c).help()) {
      // There may be more, and nobody rings for it.
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
  const std::uint32_t ports_before = ports_made_.load(std::memory_order_seq_cst);
  std::vector<watched_bell> bells = bells_to_watch(c);
  // Whoever covers serves requests, not the answers that the same bell rings for.
  std::optional<cover::only_bell_wakes> needs_bell;
  if (std::any_of(bells.begin(), bells.end(),
                  [&](const watched_bell& b) { return b.which == &workers_[0]->wakes(); })) {
    needs_bell.emplace(cover_);
  }
  prepare_sleep(bells);
  lane* const source = c.source();
  if (source != nullptr) {
    source->watch();
  } else {
    watch_all();
  }
  if (held != nullptr) held->watch();
  if (c.ready() || ports_made_.load(std::memory_order_seq_cst) != ports_before ||
      (source != nullptr ? source->has_answer() : has_answers()) ||
      (held != nullptr && (held->has_work() || arrivals_changed()))) {
    return;
  }
  const bool briefly = held != nullptr && held->is_blocked();
  sleep_on(bells, briefly ? std::min(deadline, clock::now() + room_interval) : deadline);
}

void engine::poll(completion& c) {
  if (c.source() != nullptr) {
    pump(*c.source());
  } else if (!static_cast<local_completion&>(c).help()) {
    pump_all(true);
  }
}

std::byte* engine::wait_for_room(lane& l, std::uint32_t bytes, time_point deadline) {
  waiter self(*this, deadline);
  for (;;) {
    l.pump();
    continuation* due = l.take_due();
    if (due == nullptr) {
      if (l.failure()) return nullptr;
      if (std::byte* arguments = l.try_reserve_request(bytes)) return arguments;
    }
    l.guard().unlock();
    lane::run(due);
    const bool has_served = self.serve();
    if (has_served || self.spinning.is_over()) {
      if (self.spinning.deadline_has_passed()) {
        throw timeout("the lane to " + node_text(l.peer()) + " stayed full until the deadline",
                      l.peer());
      }
      if (!has_served) {
        self.stop_looking();
        watched_bell wakes{&l.wakes()};
        prepare_sleep({&wakes, 1});
        l.watch();
        if (!l.has_answer()) {
          sleep_on({&wakes, 1}, std::min(deadline, clock::now() + room_interval));
        }
      }
      self.spinning.renew();
    }
    l.guard().lock();
  }
}

} // namespace farcall::am
