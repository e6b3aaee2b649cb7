// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/event_loop.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/other_threads.hpp>
#include <farcall/base/system_call.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <span>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

namespace farcall {
namespace {

constexpr std::size_t max_events = 64;
constexpr std::chrono::nanoseconds for_ever = std::chrono::hours(24);

/// Returns the number by which events of a descriptor are recognised. It contains a serial number,
/// because the system may give the number of a closed descriptor to a new one.
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

void log_exception(const std::exception& e) noexcept {
  static auto& lines = *new log::limited_log("more such errors");
  lines.error(std::string("in the event loop: ") + e.what());
}

} // namespace

void function_handler::on_event(std::uint32_t /*events*/) noexcept {
  try {
    function_();
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more events could not be handled");
    lines.error(e.what());
  }
}

event_loop::event_loop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_) throw_system_error("watching descriptors (descriptor limit?)", errno);
  epoll_.close_on_fork();
  wake_.close_on_fork();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = event_id(0, wake_.get());
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    throw_system_error("watching descriptors", errno);
  }
  watch_forks();
}

event_loop::event_loop(const char* name) : event_loop() {
  thread_ = library_thread(name, [this] {
    // Let the loop's thread run on after all other threads were stopped for the report of a fault,
    // because it may have to send the report to the host.
    go_on_when_others_stop();
    run();
  });
}

event_loop::event_loop(std::shared_ptr<event_loop> parent) : event_loop() {
  const auto run = [this] { run_embedded(); };
  alarm_ = counted_ptr<timer>(new function_timer(*parent, run));
  parent_ = std::move(parent);
  parent_->add(epoll_.get(), EPOLLIN, std::make_shared<function_handler>(run));
}

event_loop::~event_loop() {
  stop();
  unwatch_forks();
  // Destroy handlers and timers while the loop still exists, because their destructors may use it.
  posted_.clear();
  watched_.clear();
  while (timers_.extract_due(no_deadline)) {
  }
}

void event_loop::stop() noexcept {
  // Release, paired with the acquire loads in run() and run_embedded(), so that the loop's thread
  // sees earlier writes of this thread.
  stopping_.store(true, std::memory_order_release);
  if (parent_ != nullptr) {
    parent_->remove(epoll_.get());
    // Wait for the end of a run_embedded() that began before the removal, because it may still set
    // the alarm.
    parent_->drain();
    parent_->cancel(*alarm_);
    parent_->drain();
    return;
  }
  wake();
  thread_.join();
}

void event_loop::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void event_loop::add(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler) {
  const std::lock_guard guard(mutex_);
  const std::uint32_t serial = ++last_serial_;
  watched_[fd] = {serial, std::move(handler)};
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_id(serial, fd);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int reason = errno;
    watched_.erase(fd);
    throw_system_error("watching a descriptor", reason);
  }
}

void event_loop::modify(int fd, std::uint32_t events) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = watched_.find(fd);
  if (at == watched_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = event_id(at->second.serial, fd);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void event_loop::remove(int fd) noexcept {
  // Declare this before the lock, so that the handler is destroyed after the lock is released. Its
  // destructor may call the loop.
  std::shared_ptr<event_handler> gone;
  const std::lock_guard guard(mutex_);
  const auto at = watched_.find(fd);
  if (at == watched_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  gone = std::move(at->second.handler);
  watched_.erase(at);
}

void event_loop::post(std::function<void()> function) {
  {
    const std::lock_guard guard(mutex_);
    posted_.push_back(std::move(function));
  }
  wake();
}

bool event_loop::is_elsewhere() const noexcept {
  if (parent_ != nullptr)
    return !stopping_.load(std::memory_order_relaxed) && parent_->is_elsewhere();
  return thread_.is_joinable() && !thread_.is_current() && made_in_ == fork_generation();
}

void event_loop::drain() noexcept {
  if (!is_elsewhere()) return;
  std::unique_lock lock(mutex_);
  // Wait for the end of the next iteration. The next iteration begins after the handlers that run
  // now have returned, and it runs the functions that have been posted up to now.
  const std::uint64_t turn = begun_turns_ + 1;
  ++drainers_;
  wake();
  turn_ended_.wait(lock, [&] { return ended_turns_ >= turn; });
  --drainers_;
}

void event_loop::at(time_point when, std::function<void()> function) {
  counted_ptr<function_timer>(new function_timer(*this, std::move(function)))->set(when);
}

void event_loop::reserve_timer() {
  const std::lock_guard guard(mutex_);
  timers_.reserve();
}

void event_loop::unreserve_timer() noexcept {
  const std::lock_guard guard(mutex_);
  timers_.unreserve();
}

void event_loop::set(timer& t, time_point when) noexcept {
  if (made_in_ != fork_generation()) return;
  counted_ptr<timer> held; // reference that the queue has held; dropped after the mutex is
                           // unlocked, because a destructor may call the loop
  bool is_earliest = false;
  {
    const std::lock_guard guard(mutex_);
    // Compare with the earliest timer before `t` is extracted. If `t` itself is the earliest timer
    // and moves to a later time, the loop's thread need not be woken.
    is_earliest = when < timers_.next();
    held = timers_.extract(t);
    timers_.add(t, when);
  }
  if (is_earliest) wake();
}

void event_loop::cancel(timer& t) noexcept {
  counted_ptr<timer> held; // reference that the queue has held; dropped after the mutex is
                           // unlocked, because a destructor may call the loop
  const std::lock_guard guard(mutex_);
  held = timers_.extract(t);
}

std::chrono::nanoseconds event_loop::time_to_wait() {
  const std::lock_guard guard(mutex_);
  if (!posted_.empty()) return std::chrono::nanoseconds::zero();
  const time_point next = timers_.next();
  if (next == no_deadline) return for_ever;
  return std::clamp<std::chrono::nanoseconds>(next - clock::now(), {}, for_ever);
}

void event_loop::run_due(time_point now) {
  std::vector<std::function<void()>> posted;
  std::vector<counted_ptr<timer>> expired;
  std::uint64_t turn = 0;
  {
    const std::lock_guard guard(mutex_);
    turn = ++begun_turns_;
    posted.swap(posted_);
    while (counted_ptr<timer> t = timers_.extract_due(now))
      expired.push_back(std::move(t));
  }
  for (const std::function<void()>& function : posted) {
    try {
      function();
    } catch (const std::exception& e) {
      log_exception(e);
    }
  }
  for (const counted_ptr<timer>& t : expired)
    t->expire();
  const std::lock_guard guard(mutex_);
  ended_turns_ = turn;
  if (drainers_ != 0) turn_ended_.notify_all();
}

void event_loop::call_handlers(std::chrono::nanoseconds wait) noexcept {
  epoll_event events[max_events];
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

void event_loop::turn(time_point now) {
  call_handlers({});
  run_due(now);
}

void event_loop::run_embedded() {
  if (stopping_.load(std::memory_order_acquire)) return;
  turn(clock::now());
  time_point next;
  {
    const std::lock_guard guard(mutex_);
    next = timers_.next();
  }
  if (next != no_deadline) parent_->set(*alarm_, next);
}

void event_loop::run() noexcept {
  while (!stopping_.load(std::memory_order_acquire)) {
    std::chrono::nanoseconds wait = time_to_wait();
    if (eager_until_ != time_point{}) {
      if (clock::now() < eager_until_) {
        wait = {};
        // Yield, because with fewer CPUs than threads another thread may need this CPU to send the
        // bytes that the loop waits for.
        ::sched_yield();
      } else {
        eager_until_ = {};
      }
    }
    call_handlers(wait);
    run_due(clock::now());
  }
}

function_timer::function_timer(event_loop& loop, std::function<void()> function)
    : loop_(&loop), function_(std::move(function)) {
  loop.reserve_timer();
}

void function_timer::expire() noexcept {
  try {
    function_();
  } catch (const std::exception& e) {
    log_exception(e);
  }
}

namespace {

/// Owner of the event loop of the process. The child of a fork gets another loop, because the
/// parent's thread does not run in the child.
class process_loop final : private fork_observer {
 public:
  static process_loop& instance() {
    // The object is never destroyed, because threads may outlive static objects.
    static auto* const it = new process_loop;
    return *it;
  }

  std::shared_ptr<event_loop> find_or_make() {
    if (auto found = find(nullptr)) return found;
    // Make the loop without holding the mutex, to avoid a deadlock. The constructor registers the
    // loop as an observer of forks, and waits if a fork is in progress. The fork in turn waits for
    // the mutex in before_fork().
    return find(std::make_shared<event_loop>("farcall-loop"));
  }

  event_loop& find_or_make_lasting() {
    {
      const std::lock_guard guard(mutex_);
      if (kept_ != nullptr && kept_in_ == fork_generation()) return **kept_;
    }
    auto loop = std::make_unique<std::shared_ptr<event_loop>>(find_or_make());
    const std::lock_guard guard(mutex_);
    if (kept_ == nullptr || kept_in_ != fork_generation()) {
      // Do not delete a loop to which kept_ refers if it is a loop of the parent process, because
      // the parent's timers refer to that loop.
      kept_ = loop.release();
      kept_in_ = fork_generation();
    }
    return **kept_;
  }

 private:
  process_loop() { watch_forks(); }

  /// Returns the loop of this process. If the process has none, returns `made`, which becomes the
  /// loop of the process unless it is null.
  std::shared_ptr<event_loop> find(std::shared_ptr<event_loop> made) {
    const std::lock_guard guard(mutex_);
    if (made_in_ == fork_generation()) {
      if (auto loop = loop_.lock()) return loop;
    }
    if (made != nullptr) {
      loop_ = made;
      made_in_ = fork_generation();
    }
    return made;
  }

  void before_fork() noexcept override { mutex_.lock(); }
  void after_fork_in_parent() noexcept override { mutex_.unlock(); }
  void after_fork_in_child() noexcept override { mutex_.unlock(); }

  std::mutex mutex_;
  std::weak_ptr<event_loop> loop_;
  std::uint32_t made_in_ = 0; ///< fork generation of loop_
  std::shared_ptr<event_loop>* kept_ = nullptr;
  std::uint32_t kept_in_ = 0; ///< fork generation of kept_
};

} // namespace

std::shared_ptr<event_loop> common_event_loop() { return process_loop::instance().find_or_make(); }

event_loop& lasting_event_loop() { return process_loop::instance().find_or_make_lasting(); }

} // namespace farcall
