#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace farcall::tcp {

/// What a reactor calls when a descriptor is ready. On the reactor's thread, one call at a time;
/// must not block.
class event_handler {
 public:
  event_handler() = default;
  event_handler(const event_handler&) = delete;
  event_handler& operator=(const event_handler&) = delete;
  virtual ~event_handler() = default;
  /// `events` as of epoll.
  virtual void on_event(std::uint32_t events) noexcept = 0;
};

/// A handler made of a function. What that throws is logged.
class function_handler final : public event_handler {
 public:
  explicit function_handler(std::function<void()> what) : what_(std::move(what)) {}
  void on_event(std::uint32_t events) noexcept override;

 private:
  std::function<void()> what_;
};

/// The one thread of a process that waits for sockets, whatever their number.
class reactor {
 public:
  /// Starts the thread, which the system knows as `name`. Throws error.
  explicit reactor(const char* name);
  /// Has no thread: what the thread would do, turn() does. Throws error.
  reactor();
  reactor(const reactor&) = delete;
  reactor& operator=(const reactor&) = delete;
  /// Ends the thread; handlers are let go of.
  ~reactor();

  /// Ends the thread; no handler runs any more. Until then handlers may use the reactor. Not from
  /// its own thread.
  void stop() noexcept;

  /// Of a reactor without a thread: calls the handlers of what is ready, runs what was posted, and
  /// what is due if it is `now`. Does not wait.
  void turn(time_point now);

  // Any thread may call these.

  /// Watches `fd`, which stays its owner's and must be removed before it is closed. `events` as of
  /// epoll; with EPOLLONESHOT every event needs a modify() to be followed by another. Throws error.
  void add(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler);
  void modify(int fd, std::uint32_t events) noexcept;
  /// The handler may be in a call, or be called once more, until this has returned on the
  /// reactor's own thread.
  void remove(int fd) noexcept;

  /// Runs `what` on the reactor's thread, soon.
  void post(std::function<void()> what);
  /// Runs `what` there at that time or a little later.
  void at(time_point when, std::function<void()> what);

  /// A thread has put off sending: what on_sweep() was given is called soon, and again as long as a
  /// thread did so since the last time.
  void note_deferral() noexcept;
  /// What note_deferral() leads to. Before the first note.
  void on_sweep(std::function<void()> sweep);
  /// No sweep runs any more.
  void stop_sweeping();

  /// Something was sent to which the other side is likely to reply at once: poll without sleeping
  /// for a moment.
  void expect_more() noexcept { eager_until_ = clock::now() + eagerness; }

 private:
  struct watched {
    std::uint32_t serial;
    std::shared_ptr<event_handler> handler;
  };

  static constexpr std::chrono::microseconds sweep_interval{200};
  static constexpr std::chrono::microseconds eagerness{100};

  void run() noexcept;
  [[nodiscard]] std::chrono::nanoseconds time_to_wait();
  void call_handlers(std::chrono::nanoseconds wait) noexcept;
  void run_due(time_point now);
  void sweep();
  void wake() noexcept;

  unique_fd epoll_;
  unique_fd wake_;
  std::mutex mutex_;
  std::unordered_map<int, watched> watched_;
  std::uint32_t last_serial_ = 0;
  std::vector<std::function<void()>> posted_;
  std::multimap<time_point, std::function<void()>> timers_;
  std::mutex sweep_mutex_;
  std::function<void()> sweep_;
  std::atomic<std::uint32_t> deferrals_{0};
  std::atomic<bool> sweeps_{false};
  std::uint32_t deferrals_seen_ = 0;
  time_point eager_until_{}; ///< the reactor's thread only
  std::atomic<bool> stopping_{false};
  bool has_thread_ = false;
  std::thread thread_;
};

/// The one that all of this process has in common, where nothing brings one of its own: made when
/// nobody has it. Throws error.
[[nodiscard]] std::shared_ptr<reactor> common_reactor();

} // namespace farcall::tcp
