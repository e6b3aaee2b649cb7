// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/wait_loop.hpp>
#include <farcall/am/worker_loop.hpp>
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
  if (!options.first_is_pulled) return;
  pulled_.emplace(owner, options);
  workers_.front()->set_pulled();
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
    worker_loop loop(owner_, w, is_of_lane);
    run_wait_loop(loop, idle);
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
  if (pulled_) pulled_->after_fork_in_child();
  // Ends the worker whose handler has forked. Relaxed, because the child has one thread.
  stopping_.store(true, std::memory_order_relaxed);
}

} // namespace farcall::am
