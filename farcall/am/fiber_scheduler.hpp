// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/continuation.hpp>
#include <farcall/am/fiber.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/memory/doorbell.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace farcall::am {

/// Condition for which a thread, or one of its fibers, is waiting.
class wait_condition {
 public:
  explicit wait_condition(time_point deadline) noexcept : deadline_(deadline) {}
  wait_condition(const wait_condition&) = delete;
  wait_condition& operator=(const wait_condition&) = delete;

  enum class state : unsigned char {
    pending,
    advanced, ///< pending, but the next poll() may make progress at once
    over,
  };

  /// Makes progress towards the condition without blocking. Continuations that become due are
  /// queued on the calling thread.
  virtual state poll() noexcept = 0;

  /// Adds the doorbells that are notified when the result of poll() may have changed.
  virtual void add_doorbells(std::vector<doorbell*>& to) = 0;
  /// Called after the thread has armed the doorbells, just before it sleeps. Returns true if poll()
  /// may find something now, so that the thread must not sleep.
  [[nodiscard]] virtual bool poll_again() noexcept = 0;
  /// Returns the time until which a thread may sleep without calling poll().
  [[nodiscard]] virtual time_point next_poll() const noexcept { return deadline_; }

  [[nodiscard]] time_point deadline() const noexcept { return deadline_; }

 protected:
  ~wait_condition() = default;

 private:
  friend class fiber_scheduler;

  time_point deadline_;
  /// Fiber that is suspended until the condition is over; null if a thread waits on its own stack.
  fiber* waiting_ = nullptr;
};

/// The fibers of one library thread that runs handlers. A waiting handler does not keep others from
/// running, because these run on other fibers. Each fiber continues as soon as its own condition is
/// over, in any order. A fiber always stays on its thread, so handlers may use thread-local
/// variables.
class fiber_scheduler {
 public:
  /// Makes a scheduler for the calling thread.
  fiber_scheduler() noexcept;
  fiber_scheduler(const fiber_scheduler&) = delete;
  fiber_scheduler& operator=(const fiber_scheduler&) = delete;
  /// Destroys the unused fibers. All functions on fibers must have returned.
  ~fiber_scheduler();

  /// Returns the calling thread's scheduler, or null if the thread runs no handlers.
  [[nodiscard]] static fiber_scheduler* mine() noexcept;
  /// Makes the calling thread one that runs no handlers. Call in a forked child, or when a thread
  /// is detached although its handlers are still suspended. Call outside fibers.
  static void leave_thread() noexcept;
  /// Makes this scheduler, which was made by the calling thread, its scheduler again after
  /// leave_thread().
  void enter_thread() noexcept;

  [[nodiscard]] bool is_on_fiber() const noexcept { return current_ != nullptr; }
  [[nodiscard]] bool has_suspended() const noexcept { return !suspended_.empty(); }

  /// Runs `what(argument)` on a fiber until it returns or waits. Returns false, without running it,
  /// if the process has the maximum number of suspended fibers or no stack can be allocated.
  [[nodiscard]] bool run(fiber::body what, void* argument) noexcept;

  /// Suspends the calling fiber until `c` is over or its deadline has passed.
  void wait(wait_condition& c) noexcept;

  /// Resumes fibers whose condition is over, or whose deadline has passed. Returns true if there
  /// were any. Each call polls a few of the most recent waiters and a few of the others in turn, so
  /// that its cost is bounded however many fibers wait.
  bool resume_ready() noexcept;

  /// Runs the calling thread's queued continuations. If the thread has fibers (`fibers` is not
  /// null), they run on a fiber, so that a waiting continuation blocks no other. Otherwise they run
  /// on the thread's stack.
  static void run_queued(fiber_scheduler* fibers) noexcept {
    if (has_queued_continuations()) run_all_queued(fibers);
  }
  /// Resumes handlers whose wait is over and runs queued continuations. Returns true if there were
  /// any.
  bool go_on() noexcept {
    const bool has_resumed = resume_ready();
    // Run queued continuations even if no handler was resumed. The continuations may belong to
    // replies that have arrived, or may have been queued behind a continuation that now waits on
    // its own fiber.
    const bool has_queued = has_queued_continuations();
    run_queued(this);
    return has_resumed || has_queued;
  }

  [[nodiscard]] const std::vector<wait_condition*>& suspended() const noexcept {
    return suspended_;
  }

  /// Maximum number of suspended fibers in a process.
  static constexpr unsigned max_suspended = 4096;

 private:
  static void run_all_queued(fiber_scheduler* fibers) noexcept;
  [[nodiscard]] std::unique_ptr<fiber> take_fiber() noexcept;
  bool resume_if_ready(std::size_t place) noexcept;
  template <class Entry>
  void enter(std::unique_ptr<fiber> f, const Entry& entry) noexcept;

  fiber* current_ = nullptr;
  /// Number of fibers of this thread that run now. There may be several, because a running fiber
  /// may begin or resume another one, and waits for it meanwhile.
  std::size_t running_ = 0;
  std::size_t next_ = 0; ///< index in suspended_ of the next fiber to poll
  /// Conditions of suspended fibers, in the order in which their waits began.
  std::vector<wait_condition*> suspended_;
  std::vector<std::unique_ptr<fiber>> waiting_; ///< the suspended fibers themselves, in any order
  std::vector<std::unique_ptr<fiber>> idle_;
};

} // namespace farcall::am
