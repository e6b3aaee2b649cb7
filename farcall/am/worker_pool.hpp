// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/doorbell_layout.hpp>
#include <farcall/am/fiber_scheduler.hpp>
#include <farcall/am/progress_events.hpp>
#include <farcall/am/pulled_worker.hpp>
#include <farcall/am/worker.hpp>
#include <farcall/am/worker_group.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/library_thread.hpp>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace farcall::am {

class engine;
struct engine_options;

/// The workers of a node and their threads. The pool also starts and ends the threads.
class worker_pool {
 public:
  /// Makes the workers, without starting threads. `lane_mutex` guards the assignment of lanes to
  /// workers.
  worker_pool(engine& owner, const engine_options& options, const doorbell_layout& doorbells,
              std::mutex& lane_mutex);
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;
  /// Call join() first.
  ~worker_pool() = default;

  [[nodiscard]] const std::vector<std::unique_ptr<worker>>& all() const noexcept {
    return workers_;
  }
  [[nodiscard]] worker& first() const noexcept { return *workers_.front(); }
  /// Returns the group that passes lanes from one worker to another.
  [[nodiscard]] worker_group& sharing() noexcept { return sharing_; }
  /// True if the worker `w` receives the replies to calls of all threads.
  [[nodiscard]] bool progresses(const worker& w) const noexcept {
    return progresses_ && &w == workers_.front().get();
  }
  /// True if further requests wait for the worker that runs the calling handler.
  [[nodiscard]] bool has_requests() const noexcept;
  /// True if all received requests were served to their end. Call on the attached thread.
  [[nodiscard]] bool has_served_all() noexcept;
  /// True if the calling thread is running a handler.
  [[nodiscard]] static bool is_in_handler() noexcept;

  // ---- threads ----

  /// Starts a thread for each worker from number `first` on, which runs serve(). Also starts the
  /// thread that accepts lanes while workers are busy. Throws std::system_error and error.
  void start(std::uint32_t first);
  /// Runs the worker `index` on the calling thread until stop().
  void serve(std::uint32_t index);
  /// Runs a single-lane worker on the calling thread until its lane is closed, or until stop().
  void serve_lane(worker& w);
  enum class runs_handlers : bool { no, yes };
  /// Makes a thread that runs `run`. join() can wait for the thread's end until a deadline. Throws
  /// std::system_error.
  [[nodiscard]] library_thread make_thread(std::function<void()> run, runs_handlers handlers);
  /// Adds a thread that join() joins.
  void add_thread(library_thread t);

  // ---- a thread of the program that acts as the first worker ----

  /// Makes the calling thread the first worker, in place of serve(0). The thread serves requests
  /// while it waits, and in waiter::poll_all(). Throws error if the thread runs handlers already.
  void attach();
  /// Ends the effect of attach(). Call on the same thread, outside handlers.
  void detach() noexcept;
  /// True if the calling thread is attached as the first worker.
  [[nodiscard]] bool is_attached() const noexcept {
    return attached_ && fiber_scheduler::mine() == attached_.get();
  }
  /// True if some thread is attached as the first worker.
  [[nodiscard]] bool is_served_by_caller() const noexcept { return attached_ != nullptr; }
  /// Returns the fibers of the attached thread, or null if no thread is attached. attached_worker()
  /// returns the first worker if a thread is attached, else null.
  [[nodiscard]] fiber_scheduler* attached() const noexcept { return attached_.get(); }
  [[nodiscard]] worker* attached_worker() const noexcept { return attached_worker_; }

  /// Returns the first worker, as threads of the program act as it; null if
  /// engine_options::first_is_pulled is false.
  [[nodiscard]] pulled_worker* pulled() noexcept { return pulled_ ? &*pulled_ : nullptr; }

  // ---- the end ----

  /// Makes all serve() calls return once the received requests are done. Any thread may call it.
  /// One call is enough for all workers.
  void stop() noexcept;
  /// Stops the workers like stop(), but each serve() returns only after the deferred replies of its
  /// worker were given.
  void stop_when_done() noexcept;
  /// Stops the workers like stop_when_done(), and waits until they have served all received
  /// requests and have ended. Call before the engine is shut down.
  void finish();
  /// Joins all threads. Returns false if a thread has not ended by `deadline`; all threads are then
  /// detached.
  bool join(time_point deadline = no_deadline) noexcept;
  [[nodiscard]] bool is_stopping() const noexcept {
    // Sequentially consistent, paired with the exchange in stop(). waiter::wait_fd() needs this
    // order for the thread that it starts.
    return stopping_.load(std::memory_order_seq_cst);
  }
  /// True if handlers of `w` still have to reply and stop_when_done() was called, so that the
  /// worker must wait for these replies before it ends.
  [[nodiscard]] bool is_owed_replies(const worker& w) const noexcept {
    return finishing_.load(std::memory_order_acquire) && w.defers();
  }
  void after_fork_in_child() noexcept;

  // ---- events; any thread ----

  /// Wakes all workers.
  void notify() const noexcept;
  /// Notes that a deferred reply was given, perhaps on another thread than that of the lane's
  /// worker. Wakes sleeping workers if the reply found no space (`is_blocked`). Also wakes them if
  /// the pool stops, because a worker may be waiting only for this reply.
  void deferred_reply_was_sent(bool is_blocked) noexcept;
  /// Asks wait_has_ended() to wake the workers. Needed before a closed lane with a waiting handler,
  /// perhaps on another worker, can be reclaimed. Call it before checking for such handlers.
  void awaits_reclaim() noexcept;
  void wait_has_ended() noexcept;

 private:
  void run(worker& w, bool is_of_lane);
  void detach_threads() noexcept;

  static inline constinit thread_local const worker_pool* thread_of_ = nullptr;

  engine& owner_;
  const engine_options& options_;
  const doorbell_layout& doorbells_;
  const bool progresses_;
  std::vector<std::unique_ptr<worker>> workers_;
  worker_group sharing_;
  std::unique_ptr<fiber_scheduler> attached_; ///< fibers of the thread that called attach()
  /// First worker while a thread is attached, else null.
  worker* attached_worker_ = nullptr;
  std::optional<pulled_worker> pulled_;
  std::atomic<bool> awaits_reclaim_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> finishing_{false}; ///< true if the pool stops and waits for deferred replies

  sigset_t signals_at_start_{}; ///< signal mask of the thread that called start()
  /// Makes progress for transports with a wait descriptor; exists while the workers run.
  std::optional<progress_events> progress_;
  std::mutex mutex_; ///< guards threads_ and running_
  std::vector<library_thread> threads_;
  std::uint32_t running_ = 0; ///< running threads of make_thread()
  std::condition_variable thread_ended_;
};

} // namespace farcall::am
