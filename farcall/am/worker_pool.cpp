#include <farcall/am/engine.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/wait_conditions.hpp>
#include <farcall/am/wait_loop.hpp>
#include <farcall/am/worker_pool.hpp>
#include <farcall/base/error.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

#include <pthread.h>
#include <unistd.h>

namespace farcall::am {
namespace {

/// Disables pthread_cancel() for the calling thread for good. If cancellation were enabled again
/// after the thread's last handler, a pending cancellation would take effect in exit().
void refuse_cancellation() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr); }

/// Number of iterations between two polls for lanes that peers have opened.
constexpr unsigned arrival_poll_interval = 8;

/// Time for which a stopping worker waits for space for its replies while no reply can be sent.
constexpr std::chrono::milliseconds last_space_interval{100};

/// Number of iterations with requests after which a worker that is never idle searches for closed
/// lanes, and for waiting requests in other workers' lanes.
constexpr unsigned reclaim_interval = 4096;

/// Receive coalescing. If a caller sends requests one after the other without waiting for replies,
/// a faster worker constantly polls the very cache line that the caller writes. Each request then
/// costs both sides a transfer of that line. A worker that has seen this for a while therefore lets
/// a few requests collect between its polls. Only the worker of a single lane does so, because it
/// delays no other caller.
class coalescing {
 public:
  /// Notes an iteration that served `requests` requests after `empty_polls` polls without any. If
  /// the caller does not wait for replies, pauses briefly.
  void pause_after(unsigned requests, unsigned empty_polls) noexcept {
    if (std::exchange(has_paused_, false)) {
      // If few requests came during the pause, the caller has stopped sending, or waits for replies
      // because it has its maximum number of calls in flight. Wait longer before the next pause.
      turns_before_ = requests >= enough ? min_turns : std::min(2 * turns_before_, max_turns);
      if (requests < enough) turns_ = 0;
    }
    if (requests == 1 && empty_polls > sooner_than_a_reply) turns_ = 0;
    if (++turns_ <= turns_before_) return;
    has_paused_ = true;
    const time_point end = clock::now() + interval;
    while (clock::now() < end)
      spin_pause();
  }

 private:
  /// Maximum number of polls without a request between two requests of a caller that does not wait
  /// for replies. A caller that waits for a reply takes longer.
  static constexpr unsigned sooner_than_a_reply = 6;
  static constexpr std::chrono::microseconds interval{2};
  static constexpr unsigned enough = 20;
  static constexpr unsigned min_turns = 4;
  static constexpr unsigned max_turns = 8192;

  /// Number of consecutive iterations with requests for which the caller did not wait for replies.
  unsigned turns_ = 0;
  unsigned turns_before_ = min_turns;
  bool has_paused_ = false;
};

/// Check that a worker makes before it sleeps. The check first reclaims the worker's closed lanes.
/// It then keeps a single-lane worker that has no lane left awake, so that the worker can end. It
/// also keeps a worker awake that has nothing left to do while the engine stops.
class closing_wait final : public wait_condition {
 public:
  closing_wait(worker& w, const fiber_scheduler& fibers, bool is_of_lane) noexcept
      : wait_condition(no_deadline), worker_(w), fibers_(fibers), is_of_lane_(is_of_lane) {}

  state poll() noexcept override { return state::pending; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override {
    const bool is_empty = worker_.owner().acceptor().reclaim(worker_) == 0;
    if (fibers_.has_suspended()) return false;
    if (is_of_lane_ && is_empty) return true;
    const worker_pool& pool = worker_.owner().workers();
    return pool.is_stopping() && !worker_.is_blocked() && !pool.is_owed_replies(worker_) &&
           !worker_.lends();
  }

 private:
  worker& worker_;
  const fiber_scheduler& fibers_;
  bool is_of_lane_;
};

/// Scope of a worker's loop, which runs until the engine stops. The loop of a single-lane worker
/// also ends when its lane is closed.
class worker_scope {
 public:
  worker_scope(engine& e, worker& w, bool is_of_lane) noexcept
      : engine_(e), lanes_(e.lanes()), acceptor_(e.acceptor()), pool_(e.workers()), worker_(w),
        is_of_lane_(is_of_lane) {}

  wait_condition::state poll(spin_wait& idle) {
    const unsigned served = worker_.turn(false);
    // If this process is a forked child, end it. The child has returned from a handler that forked,
    // into its copy of this loop.
    if (engine_.is_forked()) [[unlikely]]
      ::_exit(0);
    if (served != 0) {
      note_served(served);
      return wait_condition::state::advanced;
    }
    ++empty_polls_;
    worker_.note_idle();
    acceptor_.poll_drivers();
    // Run the continuations of calls that handlers have made, which must run even if no thread
    // waits for them.
    if ((lanes_.pump_own() || fibers_.has_suspended() || has_queued_continuations()) &&
        fibers_.go_on()) {
      return wait_condition::state::advanced;
    }
    if (pool_.is_stopping()) {
      const wait_condition::state ending = poll_at_end();
      if (ending != wait_condition::state::pending) return ending;
    }
    if (pool_.progresses(worker_) && is_turn(idle, rare_poll_interval)) {
      engine_.waiter().pump(true);
      if (fibers_.go_on()) idle.renew();
    }
    if (!is_of_lane_ && is_turn(idle, arrival_poll_interval) && acceptor_.has_arrivals()) {
      acceptor_.accept();
    }
    if (is_turn(idle, worker_group::take_over_interval) && pool_.sharing().take_over(worker_)) {
      return wait_condition::state::advanced;
    }
    // Reclaim a closed lane at once, because other threads may wait for it.
    return is_of_lane_ && is_turn(idle, arrival_poll_interval) && !fibers_.has_suspended() &&
                   worker_.is_closed() && acceptor_.reclaim(worker_) == 0
               ? wait_condition::state::over
               : wait_condition::state::pending;
  }

  [[nodiscard]] static bool may_end(const spin_wait& /*idle*/) noexcept { return false; }
  [[nodiscard]] bool has_work() noexcept { return pool_.sharing().take_over(worker_); }
  void sleep() {
    acceptor_.give_back(worker_, false);
    requests_wait requests(engine_, worker_, !is_of_lane_);
    own_replies_wait replies(engine_);
    closing_wait closing(worker_, fibers_, is_of_lane_);
    engine_.waiter().sleep_as(worker_, {&requests, &replies, &closing}, fibers_);
  }

 private:
  [[nodiscard]] static bool is_turn(const spin_wait& idle, unsigned interval) noexcept {
    return idle.turn() % interval == interval - 1;
  }

  void note_served(unsigned served) noexcept {
    if (is_of_lane_) requests_.pause_after(served, std::exchange(empty_polls_, 0));
    gives_up_ = {};
    // Reclaim closed lanes even if this worker is never idle, and serve waiting lanes of other
    // workers.
    if (++busy_turns_ % reclaim_interval == 0) {
      acceptor_.reclaim(worker_);
      pool_.sharing().take_over(worker_);
    }
    if (lanes_.pump_own() || fibers_.has_suspended()) fibers_.go_on();
  }

  /// Polls while the engine stops. Returns `over` once all requests are served, or if replies have
  /// found no space for last_space_interval.
  wait_condition::state poll_at_end() noexcept {
    // Accept lanes now, because another thread may be about to hand over a new lane.
    if (!is_of_lane_) acceptor_.accept();
    if (pool_.sharing().take_over(worker_, true)) return wait_condition::state::advanced;
    acceptor_.give_back(worker_, true);
    if (worker_.has_work() || fibers_.has_suspended() || pool_.is_owed_replies(worker_) ||
        worker_.lends()) {
      return wait_condition::state::pending;
    }
    if (!worker_.is_blocked()) return wait_condition::state::over;
    // Wait for space for a short time before ending, because further requests may be behind the
    // replies that find no space.
    if (gives_up_ == time_point{}) gives_up_ = clock::now() + last_space_interval;
    return clock::now() >= gives_up_ ? wait_condition::state::over : wait_condition::state::pending;
  }

  engine& engine_;
  lane_table& lanes_;
  acceptor& acceptor_;
  worker_pool& pool_;
  worker& worker_;
  bool is_of_lane_;
  fiber_scheduler fibers_;
  time_point gives_up_{};
  coalescing requests_;
  unsigned empty_polls_ = 0;
  unsigned busy_turns_ = 0;
};

} // namespace

worker_pool::worker_pool(engine& owner, const engine_options& options,
                         const doorbell_layout& doorbells, std::mutex& lane_mutex)
    : owner_(owner), options_(options), doorbells_(doorbells), progresses_(options.progresses),
      sharing_(workers_, lane_mutex, doorbells[doorbells.acceptor()]) {
  // Lanes can be shared only if the process barrier is available; see lane_place.
  const bool shares_lanes = options.workers > 1 && process_barrier();
  const std::size_t max_lanes = std::max<std::size_t>(512, 2 * options.nodes);
  for (std::uint32_t i = 0; i < options.workers; ++i) {
    workers_.push_back(std::make_unique<worker>(owner, i, doorbells[i], max_lanes, shares_lanes));
  }
}

library_thread worker_pool::make_thread(std::function<void()> run, runs_handlers handlers) {
  const std::lock_guard guard(mutex_);
  // Handlers' threads take signals only on targets, because on a target the handlers are the
  // program, and processes that they start inherit the signal mask. On hosts, and in jobs of
  // equals, the program's own threads receive its signals.
  const bool takes_signals =
      handlers == runs_handlers::yes && options_.self != host_id && !options_.has_one_worker;
  library_thread made("farcall-worker", [this, run = std::move(run), takes_signals] {
    if (takes_signals) ::pthread_sigmask(SIG_SETMASK, &signals_at_start_, nullptr);
    refuse_cancellation();
    thread_of_ = this;
    run();
    const std::lock_guard ending(mutex_);
    --running_;
    thread_ended_.notify_all();
  });
  ++running_;
  return made;
}

bool worker_pool::has_requests() const noexcept {
  return worker::current() != nullptr && worker::current()->is_part_of(owner_) &&
         worker::current()->has_work();
}

void worker_pool::start(std::uint32_t first) {
  ::pthread_sigmask(SIG_BLOCK, nullptr, &signals_at_start_);
  progress_.emplace(owner_.acceptor().transports());
  for (std::uint32_t i = first; i < options_.workers; ++i) {
    add_thread(make_thread([this, i] { serve(i); }, runs_handlers::yes));
  }
  add_thread(make_thread([this] { owner_.acceptor().run(); }, runs_handlers::no));
}

bool worker_pool::join(time_point deadline) noexcept {
  if (deadline != no_deadline) {
    std::unique_lock guard(mutex_);
    // Do not wait for the end of the calling thread if it belongs to this pool. This is so if a
    // handler calls exit(), because static jobs are then destroyed on the handler's thread.
    const std::uint32_t own = thread_of_ == this ? 1 : 0;
    if (!thread_ended_.wait_until(guard, deadline, [&] { return running_ <= own; })) {
      guard.unlock();
      detach_threads();
      return false;
    }
  }
  std::vector<library_thread> threads;
  {
    const std::lock_guard guard(mutex_);
    threads.swap(threads_);
  }
  threads.clear(); // joins them
  owner_.acceptor().join();
  progress_.reset();
  return true;
}

void worker_pool::detach_threads() noexcept {
  {
    const std::lock_guard guard(mutex_);
    for (library_thread& t : threads_)
      t.release();
    threads_.clear();
  }
  owner_.acceptor().detach();
}

void worker_pool::serve(std::uint32_t index) {
  refuse_cancellation();
  run(*workers_[index], false);
}

void worker_pool::serve_lane(worker& w) { run(w, true); }

void worker_pool::add_thread(library_thread t) {
  const std::lock_guard guard(mutex_);
  threads_.push_back(std::move(t));
}

void worker_pool::notify() const noexcept {
  for (const auto& w : workers_)
    farcall::notify(w->wakes());
}

void worker_pool::deferred_reply_was_sent(bool is_blocked) noexcept {
  if (!is_blocked && !stopping_.load(std::memory_order_acquire)) return;
  // Use notify_if_armed(), because deferred replies come in great numbers. The function makes a
  // system call only for workers that sleep, and a worker that is awake polls anyway before it
  // sleeps.
  for (const auto& w : workers_)
    notify_if_armed(w->wakes());
  for (std::uint32_t i = doorbells_.first_lane(); i < doorbells_.acceptor(); ++i)
    notify_if_armed(doorbells_[i]);
}

void worker_pool::awaits_reclaim() noexcept {
  awaits_reclaim_.store(true, std::memory_order_relaxed);
  // This fence pairs with the fence in wait_has_ended(). Either the thread there sees this flag and
  // wakes the workers, or this thread, in its next check, sees that no handler waits any more.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void worker_pool::wait_has_ended() noexcept {
  // This fence pairs with the fence in awaits_reclaim(). Either this thread sees the flag and wakes
  // the workers, or the thread there sees that no handler waits any more.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!awaits_reclaim_.load(std::memory_order_relaxed)) return;
  awaits_reclaim_.store(false, std::memory_order_relaxed);
  notify();
}

void worker_pool::stop() noexcept {
  // Let only the first call notify. The doorbells may be gone in a later call, when the last owner
  // destroys an engine that was shut down before. Sequentially consistent, like the load in
  // wake_descriptor_thread(), and paired with the store and the load in waiter::wait_fd().
  if (stopping_.exchange(true, std::memory_order_seq_cst)) return;
  // Notify all workers, asleep or not, because a worker may be between its last poll and its sleep.
  notify();
  doorbells_.notify_lanes();
  owner_.waiter().wake_descriptor_thread();
}

void worker_pool::stop_when_done() noexcept {
  finishing_.store(true, std::memory_order_release);
  stop();
}

void worker_pool::run(worker& w, bool is_of_lane) {
  worker::make_current(&w);
  if (options_.recorder != nullptr) {
    options_.recorder->name_thread((is_of_lane ? "lane worker " : "worker ") +
                                   std::to_string(w.index()));
  }
  spin_wait idle(options_.waiting_of_workers.value_or(options_.waiting),
                 owner_.waiter().oversubscribed());
  {
    worker_scope scope(owner_, w, is_of_lane);
    run_wait_loop(scope, idle);
  }
  w.set_asleep(true);
  worker::make_current(nullptr);
}

void worker_pool::attach() {
  if (fiber_scheduler::mine() != nullptr) {
    throw error("a thread that runs handlers already cannot do so for another job");
  }
  attached_ = std::make_unique<fiber_scheduler>();
  attached_worker_ = workers_.front().get();
  worker::make_current(attached_worker_);
}

void worker_pool::detach() noexcept {
  if (!is_attached()) return;
  workers_.front()->set_asleep(true);
  attached_worker_ = nullptr;
  worker::make_current(nullptr);
  // If handlers are suspended, keep their fibers, because the handlers cannot continue on another
  // thread.
  if (attached_->has_suspended()) {
    fiber_scheduler::leave_thread();
    (void)attached_.release(); // NOLINT(bugprone-unused-return-value): it stays
  }
  attached_.reset();
}

bool worker_pool::is_in_handler() noexcept {
  const fiber_scheduler* const fibers = fiber_scheduler::mine();
  return this_stack.turn != nullptr || (fibers != nullptr && fibers->is_on_fiber());
}

bool worker_pool::has_served_all() noexcept {
  if (attached_ && attached_->has_suspended()) return false;
  return !owner_.acceptor().has_arrivals() &&
         std::all_of(workers_.begin(), workers_.end(), [](const auto& w) {
           return !w->has_work() && !w->is_blocked() && !w->defers();
         });
}

void worker_pool::finish() {
  stop_when_done();
  join();
}

void worker_pool::after_fork_in_child() noexcept {
  // Outside handlers, the attached thread becomes an ordinary thread in a forked child.
  if (is_attached() && !attached_->is_on_fiber()) {
    worker::make_current(nullptr);
    fiber_scheduler::leave_thread();
  }
  // Ends the worker whose handler has forked. Relaxed, because the child has one thread.
  stopping_.store(true, std::memory_order_relaxed);
}

} // namespace farcall::am
