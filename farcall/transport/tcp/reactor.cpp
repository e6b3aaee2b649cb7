#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/other_threads.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/base/system_call.hpp>
#include <farcall/transport/tcp/reactor.hpp>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

namespace farcall::tcp {
namespace {

constexpr std::size_t most_events = 64;
constexpr std::chrono::nanoseconds for_ever = std::chrono::hours(24);

/// Who a ready descriptor belongs to: a number that was closed and given out again is another's.
constexpr std::uint64_t event_id(std::uint32_t serial, int fd) noexcept {
  return std::uint64_t{serial} << 32 | static_cast<std::uint32_t>(fd);
}

int wait_for_events(int epoll, std::span<epoll_event> events, std::chrono::nanoseconds wait) {
#ifdef SYS_epoll_pwait2
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
  const timespec timeout{static_cast<time_t>(seconds.count()),
                         static_cast<long>((wait - seconds).count())};
  const long got = ::syscall(SYS_epoll_pwait2, epoll, events.data(),
                             static_cast<int>(events.size()), &timeout, nullptr, std::size_t{8});
  if (got >= 0 || !is_call_unavailable(errno)) return static_cast<int>(got);
#endif
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()),
                      static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
}

} // namespace

void function_handler::on_event(std::uint32_t /*events*/) noexcept {
  try {
    what_();
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more events could not be handled");
    lines.error(e.what());
  }
}

reactor::reactor()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_) throw_system_error("watching sockets (descriptor limit?)", errno);
  epoll_.close_on_fork();
  wake_.close_on_fork();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = event_id(0, wake_.get());
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    throw_system_error("watching sockets", errno);
  }
}

reactor::reactor(const char* name) : reactor() {
  has_thread_ = true;
  thread_ = std::thread([this] {
    leave_signals_to_other_threads();
    // This thread may carry what the process tells its host.
    go_on_when_others_stop();
    run();
  });
  ::pthread_setname_np(thread_.native_handle(), name);
}

reactor::~reactor() { stop(); }

void reactor::stop() noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void reactor::wake() noexcept {
  if (!has_thread_) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void reactor::add(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler) {
  const std::lock_guard guard(mutex_);
  const std::uint32_t serial = ++last_serial_;
  watched_[fd] = {serial, std::move(handler)};
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_id(serial, fd);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int reason = errno;
    watched_.erase(fd);
    throw_system_error("watching a socket", reason);
  }
}

void reactor::modify(int fd, std::uint32_t events) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = watched_.find(fd);
  if (at == watched_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_id(at->second.serial, fd);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void reactor::remove(int fd) noexcept {
  // The handler goes outside the lock: its end may call us.
  std::shared_ptr<event_handler> gone;
  const std::lock_guard guard(mutex_);
  const auto at = watched_.find(fd);
  if (at == watched_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  gone = std::move(at->second.handler);
  watched_.erase(at);
}

void reactor::post(std::function<void()> what) {
  {
    const std::lock_guard guard(mutex_);
    posted_.push_back(std::move(what));
  }
  wake();
}

void reactor::at(time_point when, std::function<void()> what) {
  bool is_first = false;
  {
    const std::lock_guard guard(mutex_);
    is_first = timers_.empty() || when < timers_.begin()->first;
    timers_.emplace(when, std::move(what));
  }
  if (is_first) wake();
}

void reactor::on_sweep(std::function<void()> sweep) {
  const std::lock_guard guard(sweep_mutex_);
  sweep_ = std::move(sweep);
}

void reactor::stop_sweeping() { on_sweep({}); }

void reactor::note_deferral() noexcept {
  deferrals_.fetch_add(1, std::memory_order_seq_cst);
  // Either we see that it does not sweep, or it sees our note before it stops.
  if (!sweeps_.load(std::memory_order_seq_cst)) wake();
}

void reactor::sweep() {
  const std::uint32_t now = deferrals_.load(std::memory_order_seq_cst);
  if (!sweeps_.load(std::memory_order_relaxed)) {
    if (now == deferrals_seen_) return;
    deferrals_seen_ = now;
    // Not at once: who has put off is likely to send by himself.
    sweeps_.store(true, std::memory_order_seq_cst);
    return;
  }
  {
    const std::lock_guard guard(sweep_mutex_);
    if (sweep_) sweep_();
  }
  if (now == deferrals_seen_) {
    sweeps_.store(false, std::memory_order_seq_cst);
    // A thread that noted a deferral before it could see that has counted on us.
    if (deferrals_.load(std::memory_order_seq_cst) != now) {
      sweeps_.store(true, std::memory_order_seq_cst);
    }
  }
  deferrals_seen_ = now;
}

std::chrono::nanoseconds reactor::time_to_wait() {
  const std::lock_guard guard(mutex_);
  if (!posted_.empty()) return std::chrono::nanoseconds::zero();
  std::chrono::nanoseconds wait = for_ever;
  if (sweeps_.load(std::memory_order_relaxed)) wait = sweep_interval;
  if (timers_.empty()) return wait;
  return std::clamp<std::chrono::nanoseconds>(timers_.begin()->first - clock::now(), {}, wait);
}

void reactor::run_due(time_point now) {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard guard(mutex_);
    due.swap(posted_);
    while (!timers_.empty() && timers_.begin()->first <= now) {
      due.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
  }
  for (const std::function<void()>& what : due) {
    try {
      what();
    } catch (const std::exception& e) {
      static auto& lines = *new log::limited_log("more such errors");
      lines.error(std::string("in the thread that serves sockets: ") + e.what());
    }
  }
}

void reactor::call_handlers(std::chrono::nanoseconds wait) noexcept {
  epoll_event events[most_events];
  const int ready = wait_for_events(epoll_.get(), events, wait);
  for (int i = 0; i < ready; ++i) {
    const int fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
    if (fd == wake_.get()) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto read = ::read(fd, &count, sizeof count);
      continue;
    }
    std::shared_ptr<event_handler> handler;
    {
      const std::lock_guard guard(mutex_);
      const auto at = watched_.find(fd);
      if (at != watched_.end() && event_id(at->second.serial, fd) == events[i].data.u64) {
        handler = at->second.handler;
      }
    }
    if (handler) handler->on_event(events[i].events);
  }
}

void reactor::turn(time_point now) {
  call_handlers({});
  run_due(now);
  sweep();
}

void reactor::run() noexcept {
  while (!stopping_.load(std::memory_order_acquire)) {
    std::chrono::nanoseconds wait = time_to_wait();
    if (eager_until_ != time_point{}) {
      if (clock::now() < eager_until_) {
        wait = {};
        // Where there are fewer processors than threads, somebody else may have what we wait for.
        ::sched_yield();
      } else {
        eager_until_ = {};
      }
    }
    call_handlers(wait);
    run_due(clock::now());
    sweep();
  }
}

std::shared_ptr<reactor> common_reactor() {
  static std::mutex mutex;
  static std::weak_ptr<reactor> made;
  static pid_t made_by = 0; // the thread of a parent does not run in the child of its fork
  const std::lock_guard guard(mutex);
  auto common = made_by == ::getpid() ? made.lock() : nullptr;
  if (common == nullptr) {
    common = std::make_shared<reactor>("farcall-tcp");
    made = common;
    made_by = ::getpid();
  }
  return common;
}

} // namespace farcall::tcp
