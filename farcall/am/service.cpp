#include <farcall/am/engine.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/join.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include <pthread.h>
#include <unistd.h>

/// The threads that run handlers, and how lanes come to them.
namespace farcall::am {
namespace {

/// Keeps pthread_cancel() from ending the calling thread, also behind its last handler: a
/// cancellation that is pending would act in exit().
void refuse_cancellation() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }

/// Iterations between two polls for lanes that peers have opened.
constexpr unsigned arrival_look_interval = 8;

/// Iterations between two polls for replies to calls of other threads.
constexpr unsigned progress_interval = 64;

/// How long a worker that is to stop waits for space for its replies while nothing moves.
constexpr std::chrono::milliseconds last_space_interval{100};

/// Busy iterations of a worker between two searches for closed lanes, and for lanes of others that
/// wait.
constexpr unsigned reclaim_interval = 4096;

/// Receive coalescing. When a caller sends one request after the other without waiting for replies,
/// a worker that is faster polls all the time the very line that the caller writes to, and each
/// request costs both sides a transfer of that line. So a worker that has seen this for a while
/// lets a few requests collect between its polls. Only for the worker of a single lane, which keeps
/// nobody else waiting.
class coalescing {
 public:
  /// After an iteration that served `requests`, with `empty_looks` polls since the one before.
  void pause_after(unsigned requests, unsigned empty_looks) noexcept {
    if (std::exchange(has_paused_, false)) {
      // Few: the caller has stopped, or waits for replies once a number of them is outstanding.
      turns_before_ = requests >= enough ? least_turns : std::min(2 * turns_before_, most_turns);
      if (requests < enough) turns_ = 0;
    }
    if (requests == 1 && empty_looks > sooner_than_a_reply) turns_ = 0;
    if (++turns_ <= turns_before_) return;
    has_paused_ = true;
    const time_point end = clock::now() + interval;
    while (clock::now() < end)
      spin_pause();
  }

 private:
  /// A caller that waits for each reply cannot have sent its next request after so few polls.
  static constexpr unsigned sooner_than_a_reply = 6;
  static constexpr std::chrono::microseconds interval{2};
  static constexpr unsigned enough = 20;
  static constexpr unsigned least_turns = 4;
  static constexpr unsigned most_turns = 8192;

  unsigned turns_ = 0; ///< in a row that found requests of a caller that did not wait
  unsigned turns_before_ = least_turns;
  bool has_paused_ = false;
};

} // namespace

void engine::close_refused() noexcept {
  std::erase_if(refused_, [this](std::pair<transport*, endpoint>& r) {
    auto& [via, c] = r;
    if (c.driver != nullptr) c.driver->progress();
    // Nobody else reads what is in it, and unread it does not count as closed. Not more than it
    // holds: a peer may write on and on, or leave the same words there.
    const std::uint64_t end = c.in.tail + c.in.size;
    for (record_view record = peek(c.in); record && record.bytes != 0 && c.in.tail < end;
         record = peek(c.in)) {
      release(c.in, record);
    }
    if (!has_failed(c.peer) && !via->is_closed(c)) return false;
    via->close(c);
    return true;
  });
}

void engine::refuse_arrival(transport& via, endpoint& c, std::string_view why) noexcept {
  try {
    static auto& refusals = *new log::limited_log("more lanes could not be served");
    refusals.error("a lane that " + node_text(c.peer) + " opened is refused: " + std::string(why));
  } catch (const std::bad_alloc&) {
    // The peer is told all the same.
  }
  refuse_lane(c.out, why);
  refused_.emplace_back(&via, c);
}

void engine::accept_lanes() noexcept {
  const std::lock_guard guard(accept_mutex_);
  close_refused();
  for (const auto& l : listeners_) {
    const std::uint32_t now = l->arrivals->load(std::memory_order_acquire);
    if (now == l->seen.load(std::memory_order_relaxed)) continue;
    while (std::optional<endpoint> c = l->via->accept()) {
      try {
        adopt(*l->via, *c);
      } catch (const std::bad_alloc&) {
        refuse_arrival(*l->via, *c, "its process has no memory left for it");
      } catch (const std::system_error&) {
        refuse_arrival(*l->via, *c,
                       "its process can start no thread for it (memory limit, or 'ulimit -u')");
      } catch (const std::exception& e) {
        refuse_arrival(*l->via, *c, e.what());
      }
    }
    // Last: until then another thread that looks comes here and waits, and so finds the lanes.
    l->seen.store(now, std::memory_order_release);
  }
}

template <class F>
std::thread engine::make_thread(F run, runs_handlers handlers) {
  const std::lock_guard guard(running_mutex_);
  // On the host, and on equals, the program's own threads take its signals. A target has none but
  // those that run handlers, and what they start inherits their mask.
  const bool takes_signals =
      handlers == runs_handlers::yes && options_.self != host_id && !options_.has_one_worker;
  std::thread made([this, run, takes_signals] {
    if (takes_signals) {
      ::pthread_sigmask(SIG_SETMASK, &signals_at_start_, nullptr);
    } else {
      leave_signals_to_other_threads();
    }
    const signal_stack for_faults;
    refuse_cancellation();
    thread_of_ = this;
    run();
    const std::lock_guard ending(running_mutex_);
    --running_;
    thread_ended_.notify_all();
  });
  ++running_;
  return made;
}

void engine::adopt(transport& via, const endpoint& c) {
  if (c.driver != nullptr) moves_bytes_.store(true, std::memory_order_relaxed);
  if (c.peer >= options_.nodes || has_failed(c.peer)) {
    via.close(c);
    return;
  }
  if (!c.own_worker) {
    // A worker that does not exist is a peer's mistake; the lane is served all the same.
    worker& w = *workers_[c.worker % options_.workers];
    if (!w.add(via, c)) throw error("worker " + std::to_string(w.index()) + " has too many lanes");
    notify_if_armed(w.wakes());
    sharing_.is_awake(w);
    return;
  }
  // Nothing that comes would wake the lane's thread.
  if (c.worker < first_lane_doorbell() || c.worker >= acceptor_doorbell()) {
    static auto& impossible = *new log::limited_log("more lanes were impossible");
    impossible.warning(node_text(c.peer) + " opens a lane at an impossible doorbell; refused");
    via.close(c);
    return;
  }
  std::erase_if(lane_workers_, [](lane_worker& old) {
    if (!old.done.load(std::memory_order_acquire)) return false;
    if (old.thread.joinable()) old.thread.join();
    return true;
  });
  lane_worker& made = lane_workers_.emplace_back();
  try {
    made.serving = std::make_unique<worker>(*this, c.worker, options_.doorbells[c.worker], 1);
    if (!made.serving->add(via, c)) throw error("a worker of its own has too many lanes");
    made.thread = make_thread(
        [this, &made] {
          run_worker(*made.serving, true);
          made.done.store(true, std::memory_order_release);
        },
        runs_handlers::yes);
  } catch (...) {
    lane_workers_.pop_back();
    throw;
  }
}

bool engine::has_requests() const noexcept {
  return current_worker_ != nullptr && current_worker_->is_part_of(*this) &&
         current_worker_->has_work();
}

void engine::start_workers(std::uint32_t first) {
  ::pthread_sigmask(SIG_BLOCK, nullptr, &signals_at_start_);
  std::vector<transport*> transports;
  for (const auto& l : listeners_)
    transports.push_back(l->via);
  progress_.emplace(transports);
  for (std::uint32_t i = first; i < options_.workers; ++i) {
    threads_.push_back(make_thread([this, i] { serve(i); }, runs_handlers::yes));
  }
  threads_.push_back(make_thread([this] { accept_until_stopped(); }, runs_handlers::no));
}

void engine::accept_until_stopped() {
  armed_doorbell wakes{&options_.doorbells[acceptor_doorbell()]};
  for (;;) {
    arm({&wakes, 1});
    // What has arrived is served to its end: stops of what still runs, perhaps.
    const bool is_last = stopping_.load(std::memory_order_acquire);
    if (arrivals_changed()) accept_lanes();
    if (is_last) return;
    // It stays armed while only time passes, so that a look costs nobody a barrier.
    time_point next_look{};
    do {
      next_look = sharing_.watch();
      sleep_on({&wakes, 1}, next_look);
    } while (next_look != no_deadline &&
             wakes.which->word.load(std::memory_order_relaxed) == wakes.seen);
  }
}

bool engine::join_threads(time_point deadline) noexcept {
  if (deadline != no_deadline) {
    std::unique_lock guard(running_mutex_);
    // exit() in a handler destroys static jobs on one of them.
    const std::uint32_t own = thread_of_ == this ? 1 : 0;
    if (!thread_ended_.wait_until(guard, deadline, [&] { return running_ <= own; })) {
      guard.unlock();
      let_threads_go();
      return false;
    }
  }
  std::vector<std::thread> threads;
  {
    const std::lock_guard guard(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& t : threads)
    join_unless_own(t);
  for (lane_worker& w : lane_workers_)
    join_unless_own(w.thread);
  progress_.reset();
  return true;
}

void engine::let_threads_go() noexcept {
  {
    const std::lock_guard guard(mutex_);
    for (std::thread& t : threads_)
      t.detach();
    threads_.clear();
  }
  const std::lock_guard guard(accept_mutex_);
  for (lane_worker& w : lane_workers_) {
    if (w.thread.joinable()) w.thread.detach();
  }
}

void engine::serve(std::uint32_t index) {
  refuse_cancellation();
  run_worker(*workers_[index], false);
}

/// What a worker sleeps for: requests, lanes that open and close, the end.
class engine::worker_sleep final : public wait_condition {
 public:
  worker_sleep(engine& e, worker& w, const fiber_scheduler& fibers, bool until_empty) noexcept
      : wait_condition(no_deadline), engine_(e), worker_(w), fibers_(fibers),
        until_empty_(until_empty), replies_(e) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& to) override {
    worker_.add_doorbells(to);
    engine_.add_own_doorbells(to);
    if (engine_.progresses(worker_)) replies_.add_doorbells(to);
  }
  bool look_again() noexcept override {
    engine_.arm_drivers();
    worker_.arm();
    if (engine_.progresses(worker_) && replies_.look_again()) return true;
    const std::size_t lanes = engine_.reclaim(worker_);
    is_empty_ = until_empty_ && lanes == 0 && !fibers_.has_suspended();
    const bool shall_end = engine_.stopping_.load(std::memory_order_acquire) &&
                           !worker_.is_blocked() && !fibers_.has_suspended() &&
                           !engine_.is_owed_replies(worker_) && !worker_.lends();
    return engine_.has_own_replies(true) || is_empty_ || shall_end || worker_.has_work() ||
           (!until_empty_ && engine_.arrivals_changed());
  }
  [[nodiscard]] time_point next_look() const noexcept override {
    return worker_.is_blocked() ? clock::now() + space_interval : no_deadline;
  }

  /// Its last lane was closed.
  [[nodiscard]] bool is_empty() const noexcept { return is_empty_; }

 private:
  engine& engine_;
  worker& worker_;
  const fiber_scheduler& fibers_;
  bool until_empty_;
  bool is_empty_ = false;
  any_reply replies_;
};

bool engine::is_owed_replies(const worker& w) const noexcept {
  return finishing_.load(std::memory_order_acquire) && w.defers();
}

void engine::deferred_reply_was_sent(bool is_blocked) noexcept {
  if (!is_blocked && !stopping_.load(std::memory_order_acquire)) return;
  // Kept replies come in great numbers, and a worker that is awake looks before it sleeps.
  for (const auto& w : workers_)
    notify_if_armed(w->wakes());
  for (std::uint32_t i = first_lane_doorbell(); i < acceptor_doorbell(); ++i)
    notify_if_armed(options_.doorbells[i]);
}

void engine::awaits_reclaim() noexcept {
  awaits_reclaim_.store(true, std::memory_order_relaxed);
  // Partner: the fence in wait_has_ended(). Either that sees this, or we see that nobody waits.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void engine::wait_has_ended() noexcept {
  // Partner: the fence in awaits_reclaim().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!awaits_reclaim_.load(std::memory_order_relaxed)) return;
  awaits_reclaim_.store(false, std::memory_order_relaxed);
  for (const auto& w : workers_)
    notify(w->wakes());
}

void engine::give_back_lanes(worker& w, bool all) noexcept {
  if (!w.shares_lanes()) return;
  const std::lock_guard guard(accept_mutex_);
  w.give_back(all);
}

std::size_t engine::reclaim(worker& w) noexcept {
  const std::lock_guard guard(accept_mutex_);
  return w.reclaim();
}

bool engine::go_on(fiber_scheduler& fibers) noexcept {
  const bool has_resumed = fibers.resume_ready();
  // Those of replies, and those behind a continuation that waits on a fiber.
  const bool has_queued = has_queued_continuations();
  run_queued(&fibers);
  return has_resumed || has_queued;
}

void engine::run_worker(worker& w, bool until_empty) {
  current_worker_ = &w;
  if (options_.recorder != nullptr) {
    options_.recorder->name_thread((until_empty ? "lane worker " : "worker ") +
                                   std::to_string(w.index()));
  }
  fiber_scheduler fibers;
  spin_wait idle(options_.waiting_of_workers.value_or(options_.waiting), oversubscribed_);
  time_point gives_up{};
  coalescing requests;
  unsigned empty_looks = 0;
  for (unsigned busy_turns = 0;;) {
    const unsigned served = w.turn(false);
    // A handler has forked, and its child returns from it, into a thread of the parent's.
    if (is_forked()) [[unlikely]]
      ::_exit(0);
    if (served != 0) {
      if (until_empty) requests.pause_after(served, std::exchange(empty_looks, 0));
      idle.renew();
      gives_up = {};
      // Closed lanes must be given back even if this worker is never idle. Nor may lanes of others
      // wait for ever.
      if (++busy_turns % reclaim_interval == 0) {
        reclaim(w);
        sharing_.take_over(w);
      }
      if (pump_own() || fibers.has_suspended()) go_on(fibers);
      continue;
    }
    ++empty_looks;
    w.note_idle();
    poll_drivers();
    // Continuations of calls that handlers have made run without anybody's waiting for them.
    if ((pump_own() || fibers.has_suspended() || has_queued_continuations()) && go_on(fibers)) {
      idle.renew();
      continue;
    }
    if (stopping_.load(std::memory_order_acquire)) {
      // A lane may have been opened, and another thread be about to hand it to us.
      if (!until_empty) accept_lanes();
      if (sharing_.take_over(w, true)) continue;
      give_back_lanes(w, true);
      if (!w.has_work() && !fibers.has_suspended() && !is_owed_replies(w) && !w.lends()) {
        if (!w.is_blocked()) break;
        // Behind replies that find no space there may be requests.
        if (gives_up == time_point{}) gives_up = clock::now() + last_space_interval;
        if (clock::now() >= gives_up) break;
      }
    }
    if (progresses(w) && idle.turn() % progress_interval == progress_interval - 1) {
      pump_all(true);
      if (go_on(fibers)) idle.renew();
    }
    if (!until_empty && idle.turn() % arrival_look_interval == arrival_look_interval - 1 &&
        arrivals_changed()) {
      accept_lanes();
    }
    if (idle.turn() % take_over_interval == take_over_interval - 1 && sharing_.take_over(w)) {
      idle.renew();
      continue;
    }
    // Others may wait for the lane.
    if (until_empty && idle.turn() % arrival_look_interval == arrival_look_interval - 1 &&
        !fibers.has_suspended() && w.is_closed() && reclaim(w) == 0) {
      break;
    }
    if (!idle.is_over()) continue;
    idle.renew();
    if (sharing_.take_over(w)) continue;
    give_back_lanes(w, false);
    worker_sleep for_work(*this, w, fibers, until_empty);
    {
      const worker_group::sleep asleep(sharing_, w);
      ++w.counters().sleeps;
      sleep({&for_work}, &fibers);
    }
    if (for_work.is_empty()) break;
  }
  w.set_asleep(true);
  current_worker_ = nullptr;
}

void engine::stop() noexcept {
  // The doorbells may be gone when the last thread lets go of an engine that was shut down.
  // Sequentially consistent, with the load below; partners: those in wait_fd().
  if (stopping_.exchange(true, std::memory_order_seq_cst)) return;
  // Notifies all, asleep or not: a thread may be between its last poll and its sleep.
  for (const auto& w : workers_)
    notify(w->wakes());
  notify_lane_workers();
  if (completion_descriptor* const d = descriptor_.load(std::memory_order_seq_cst))
    notify(d->cleared());
}

void engine::stop_when_done() noexcept {
  finishing_.store(true, std::memory_order_release);
  stop();
}

void engine::notify_lane_workers() noexcept {
  for (std::uint32_t i = first_lane_doorbell(); i <= acceptor_doorbell(); ++i)
    notify(options_.doorbells[i]);
}

} // namespace farcall::am
