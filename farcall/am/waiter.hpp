// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/completion.hpp>
#include <farcall/am/completion_descriptor.hpp>
#include <farcall/am/completion_thread.hpp>
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/am/spin_wait.hpp>
#include <farcall/am/worker.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>

namespace farcall::am {

class acceptor;
class engine;
class lane_table;
class worker_pool;
struct engine_options;

/// Waiting of threads. A thread that runs handlers serves requests while it waits, each on a fiber.
/// A thread of the program only receives replies. Any thread may use the waiter.
class waiter {
 public:
  /// Makes the waiter of the engine `owner`. `local` is the doorbell of threads that wait for
  /// events of this process.
  waiter(engine& owner, const engine_options& options, doorbell& local) noexcept;
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;
  ~waiter();

  // ---- waits ----

  /// See client::wait().
  [[nodiscard]] bool wait(completion& c, time_point deadline = no_deadline);
  /// See client::wait_alone().
  [[nodiscard]] bool wait_alone(pending_call& c, time_point deadline);
  /// Waits until `holds(argument)`, which the waiting thread calls in each poll, returns true.
  /// Returns false if the deadline has passed. If `is_notified` is true, the thread may sleep. All
  /// code that changes the function's result must then run on this thread, be the effect of a
  /// reply, or call notify() afterwards. If `is_notified` is false, the thread wakes up
  /// periodically. Throws forked.
  [[nodiscard]] bool wait_until(bool (*holds)(void* argument) noexcept, void* argument,
                                bool is_notified, time_point deadline);
  /// See client::wait_for_space(). Throws timeout. With the deadline without_waiting, tries
  /// nothing.
  [[nodiscard]] std::byte* wait_for_space(requester& l, std::uint32_t bytes, time_point deadline);
  /// Opens a lane to `node`. If none is left, waits until a closed lane is free. Throws what
  /// lane_table::open() throws, and timeout.
  [[nodiscard]] endpoint wait_for_lane(node_id node, const lane_shape& shape, time_point deadline);

  // ---- polls ----

  /// See client::poll().
  void poll(completion& c);
  /// Makes progress for all calls of all threads. An attached thread also serves the requests that
  /// have arrived. Throws forked.
  void poll_all();
  /// Makes progress like poll_all(), but at less cost, and receives replies only in some of its
  /// calls. Requests are served on the caller's stack, so that a handler that waits blocks the
  /// caller until the handler's wait is over.
  void poll_all_in_place();
  /// Returns a file descriptor that is readable while poll_all() may find completions; poll_all()
  /// makes it unreadable. The waiter owns the descriptor. The first call starts a thread. Throws
  /// error.
  [[nodiscard]] int wait_fd();

  // ---- events ----

  /// Wakes threads that wait for events of this process, because an event was completed.
  void notify() noexcept {
    notify_if_armed(local_);
    signal_completion();
  }
  /// Makes the descriptor of wait_fd() readable, if it exists.
  void signal_completion() noexcept;
  /// Wakes the thread of wait_fd(), so that this thread notices that the workers stop.
  void wake_descriptor_thread() noexcept;
  /// Closes a forked child's copy of the descriptor of wait_fd().
  void after_fork_in_child() noexcept;
  /// Returns the completion thread, which runs continuations that could block threads on which
  /// others depend.
  [[nodiscard]] completion_thread& completions() noexcept { return completions_; }

  // ---- functions for wait conditions, and for the loops of workers ----

  [[nodiscard]] doorbell& local() const noexcept { return local_; }
  /// Flag that all waits of this engine share. The flag says whether another waiting thread got the
  /// processor at the last yield that was checked.
  [[nodiscard]] std::atomic<bool>& oversubscribed() noexcept { return oversubscribed_; }
  /// Receives replies to calls of the calling thread. If `others` is true, receives replies to
  /// calls of all threads.
  void pump(bool others) noexcept;
  /// Sleeps until one of the conditions, or the condition of a suspended fiber, may have something
  /// to do. Returns true if a signal has ended the sleep.
  bool sleep(std::initializer_list<wait_condition*> conditions, fiber_scheduler* fibers);
  /// Sleeps like sleep(), as the thread of worker `w`. Other workers may take over the worker's
  /// lanes in that time.
  bool sleep_as(worker& w, std::initializer_list<wait_condition*> conditions,
                fiber_scheduler& fibers);

 private:
  template <class Condition>
  void wait_for(Condition& c);
  /// Serves the requests that have arrived, on the attached thread.
  void serve_attached();
  /// True if a few cheap checks find nothing for the attached thread to do in poll_all(). Now and
  /// then returns false without these checks, so that poll_all() also polls the lanes of other
  /// threads.
  [[nodiscard]] bool is_quiet() noexcept;
  /// True if poll_all_in_place() must call poll_all(), because there may be other work than
  /// requests.
  [[nodiscard]] bool needs_whole_poll(const worker& w) noexcept;

  /// Waiter whose poll_all() is running on the calling thread, or null.
  static inline constinit thread_local const waiter* polling_ = nullptr;

  engine& owner_;
  const engine_options& options_;
  lane_table& lanes_;
  acceptor& acceptor_;
  worker_pool& workers_;
  doorbell& local_;
  std::atomic<bool> oversubscribed_{false};                 ///< see spin_wait
  std::atomic<completion_descriptor*> descriptor_{nullptr}; ///< owned
  /// Held while wait_fd() makes the descriptor.
  std::mutex mutex_;
  completion_thread completions_{local_};
  /// Number of calls of is_quiet(). Only the attached thread calls is_quiet().
  unsigned quiet_polls_ = 0;
  /// Number of calls of poll_all_in_place() that needs_whole_poll() has counted.
  unsigned polls_in_place_ = 0;
};

} // namespace farcall::am
