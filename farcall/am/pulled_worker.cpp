// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/interrupt.hpp>
#include <farcall/am/pulled_worker.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/wait_loop.hpp>
#include <farcall/am/worker_loop.hpp>
#include <farcall/base/error.hpp>
#include <farcall/trace/recorder.hpp>

#include <algorithm>
#include <vector>

namespace farcall::am {
namespace {

/// Returns an address that identifies the calling thread as long as it runs.
const void* this_thread() noexcept {
  thread_local char identity;
  return &identity;
}

/// Wakes a sleeping worker when `holds` is true, at the deadline, and when the thread must ask for
/// an interruption. The doorbell of the worker is notified after a change.
class holds_wait final : public wait_condition {
 public:
  holds_wait(bool (*holds)(void*) noexcept, void* argument, time_point deadline,
             const interruption& interrupts) noexcept
      : wait_condition(deadline), holds_(holds), argument_(argument), interrupts_(interrupts) {}

  state poll() noexcept override { return poll_again() ? state::over : state::pending; }
  void add_doorbells(std::vector<doorbell*>& /*to*/) override {}
  bool poll_again() noexcept override { return holds_(argument_); }
  [[nodiscard]] time_point next_poll() const noexcept override {
    return std::min(deadline(), interrupts_.next_poll());
  }

 private:
  bool (*holds_)(void*) noexcept;
  void* argument_;
  const interruption& interrupts_;
};

} // namespace

/// Condition of a thread that waits while another thread acts as the worker.
struct pulled_worker::question {
  const pulled_worker& asked;
  bool (*holds)(void*) noexcept;
  void* argument;
};

/// Scope of one call of serve_until(); see run_wait_loop().
class pulled_worker::part {
 public:
  part(worker_loop& loop, bool (*holds)(void*) noexcept, void* argument,
       time_point deadline) noexcept
      : loop_(loop), holds_(holds), argument_(argument), deadline_(deadline) {}

  wait_condition::state poll(spin_wait& idle) {
    const wait_condition::state now = loop_.poll(idle);
    if (holds_(argument_)) {
      outcome_ = outcome::holds;
      return wait_condition::state::over;
    }
    if (now == wait_condition::state::over) outcome_ = outcome::ended;
    return now;
  }
  /// Throws interrupted.
  [[nodiscard]] bool may_end(const spin_wait& idle) {
    interrupts_.ask_if_due();
    return idle.deadline_has_passed();
  }
  [[nodiscard]] bool has_work() noexcept { return loop_.has_work(); }
  /// Throws interrupted.
  void sleep() {
    holds_wait also(holds_, argument_, deadline_, interrupts_);
    interrupts_.sleep_ended(loop_.sleep_unless(&also));
  }

  [[nodiscard]] outcome result() const noexcept { return outcome_; }

 private:
  worker_loop& loop_;
  bool (*holds_)(void*) noexcept;
  void* argument_;
  time_point deadline_;
  interruption interrupts_;
  outcome outcome_ = outcome::late;
};

pulled_worker::pulled_worker(engine& owner, const engine_options& options) noexcept
    : owner_(owner), options_(options) {}

pulled_worker::~pulled_worker() {
  // If handlers are suspended, keep their fibers, because the handlers cannot continue on another
  // thread.
  if (loop_ && loop_->fibers().has_suspended())
    (void)loop_.release(); // NOLINT(bugprone-unused-return-value): it stays
}

pulled_worker::outcome pulled_worker::serve_until(bool (*holds)(void*) noexcept, void* argument,
                                                  time_point deadline) {
  owner_.require_own_process();
  if (worker::current() != nullptr || fiber_scheduler::mine() != nullptr)
    throw error("a handler cannot serve calls itself; its thread serves them while it waits");
  while (!enter()) {
    question q{*this, holds, argument};
    // An interruption ends the wait by an exception.
    struct counting {
      std::atomic<unsigned>& threads;
      explicit counting(std::atomic<unsigned>& counted) noexcept : threads(counted) {
        threads.fetch_add(1, std::memory_order_seq_cst);
      }
      ~counting() { threads.fetch_sub(1, std::memory_order_relaxed); }
    } const counted{waiting_threads_};
    // Ignore the result, because another thread may have become the worker again.
    (void)owner_.waiter().wait_until(
        [](void* asked) noexcept {
          const auto& each = *static_cast<question*>(asked);
          return each.holds(each.argument) ||
                 each.asked.thread_.load(std::memory_order_seq_cst) == nullptr;
        },
        &q, true, deadline);
    if (holds(argument)) return outcome::holds;
    if (deadline != no_deadline && clock::now() >= deadline) return outcome::late;
  }
  struct leaving {
    pulled_worker& of;
    ~leaving() { of.leave(); }
  } const at_end{*this};
  spin_wait idle(options_.waiting, owner_.waiter().oversubscribed(), deadline);
  part served(*loop_, holds, argument, deadline);
  // Poll first, because the deadline may have passed.
  if (served.poll(idle) != wait_condition::state::over && !idle.deadline_has_passed())
    run_wait_loop(served, idle);
  return served.result();
}

bool pulled_worker::enter() {
  const void* const self = this_thread();
  const void* acting = nullptr;
  // Sequentially consistent, paired with the load in serve_until(): a thread that waits either sees
  // that no thread acts as the worker, or is counted when leave() reads waiting_threads_.
  if (!thread_.compare_exchange_strong(acting, self, std::memory_order_seq_cst) && acting != self)
    return false;
  worker& first = owner_.workers().first();
  if (thread_of_loop_ != self) {
    loop_ = std::make_unique<worker_loop>(owner_, first, false);
    loop_->run_on_fibers();
    thread_of_loop_ = self;
    if (options_.recorder != nullptr) options_.recorder->name_thread("worker 0");
  } else {
    loop_->fibers().enter_thread();
  }
  worker::make_current(&first);
  return true;
}

void pulled_worker::leave() noexcept {
  worker::make_current(nullptr);
  fiber_scheduler::leave_thread();
  if (loop_->fibers().has_suspended()) return;
  thread_.store(nullptr, std::memory_order_seq_cst);
  if (waiting_threads_.load(std::memory_order_seq_cst) != 0) owner_.waiter().notify();
}

void pulled_worker::notify() noexcept {
  notify_if_armed(owner_.workers().first().wakes());
  if (waiting_threads_.load(std::memory_order_seq_cst) != 0) owner_.waiter().notify();
}

void pulled_worker::after_fork_in_child() noexcept {
  if (thread_.load(std::memory_order_relaxed) == this_thread()) {
    worker::make_current(nullptr);
    fiber_scheduler::leave_thread();
  }
}

} // namespace farcall::am
