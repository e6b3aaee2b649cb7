// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/log.hpp>
#include <farcall/gpu/transport/workers.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <new>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::cuda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds check_interval = milliseconds(1);
/// First interval of the monitor's polls for a sleeping thread. Later the interval is an eighth of
/// the time since the thread went to sleep.
constexpr nanoseconds min_interval = microseconds(50);

/// Maximum time that a sender waits until a leaving worker has decided whether it stays. The
/// decision takes the worker two accesses of the bus.
constexpr nanoseconds decision_time = microseconds(200);

/// Time at the end of the job during which calls from handlers to the host still get replies.
constexpr nanoseconds reply_time = milliseconds(100);

/// Timeout of a worker's first start. It is long, because code is loaded, and other programs may
/// use the device.
constexpr std::chrono::seconds first_start_time{10};

} // namespace

workers::workers(device_api& device, std::vector<worker_setup> setups)
    : device_(&device), setups_(std::move(setups)), failure_event_(::eventfd(0, EFD_CLOEXEC)) {
  if (!failure_event_) throw_system_error("watching a device (descriptor limit?)", errno);
}

workers::~workers() { stop(clock::now()); }

void workers::try_out() {
  command(worker_command::leave);
  const time_point deadline = clock::now() + first_start_time;
  std::exception_ptr why_not;
  for (std::uint32_t i = 0; i < setups_.size() && !why_not; ++i) {
    store_release(&setups_[i].control->state, static_cast<std::uint32_t>(worker_state::running));
    try {
      device_->start(i, setups_[i]);
    } catch (const error&) {
      store_release(&setups_[i].control->state, static_cast<std::uint32_t>(worker_state::left));
      why_not = std::current_exception();
    }
  }
  // Wait for all workers even if one did not start, because they use memory that is freed after an
  // error.
  for (std::uint32_t i = 0; i < setups_.size(); ++i) {
    while (state_of(i) != worker_state::left) {
      if (const auto why = device_->failure()) {
        device_->abandon();
        throw error("its workers cannot run: " + *why);
      }
      if (clock::now() >= deadline) {
        device_->abandon();
        throw error("its workers have not started within 10 s; is it busy with something else?");
      }
      std::this_thread::yield();
    }
    try {
      device_->join(i);
    } catch (const error&) {
      why_not = std::current_exception();
    }
  }
  if (why_not) std::rethrow_exception(why_not);
  command(worker_command::serve);
}

void workers::begin(look_after calls) {
  calls_ = std::move(calls);
  monitor_ = library_thread("farcall-device", [this] { look_after_workers(); });
}

worker_state workers::state_of(std::uint32_t worker) const noexcept {
  return static_cast<worker_state>(load_acquire(&setups_[worker].control->state));
}

std::string workers::text_of(std::uint32_t worker) const {
  constexpr std::array states{"has left", "runs", "is leaving"};
  constexpr std::array commands{"serve", "leave", "end"};
  const auto name = [](const auto& names, std::uint32_t number) {
    return number < names.size() ? names[number] : "what is not known";
  };
  const worker_control& control = *setups_[worker].control;
  return "worker " + std::to_string(worker) + " " + name(states, load_acquire(&control.state)) +
         ", told to " + name(commands, load_acquire(&control.command)) + ", lane mask " +
         std::to_string(load_acquire(&control.lanes)) + "; all were started " +
         std::to_string(starts()) + " times";
}

bool workers::all_have_left() const noexcept {
  for (std::uint32_t i = 0; i < setups_.size(); ++i) {
    if (state_of(i) != worker_state::left) return false;
  }
  return true;
}

bool workers::is_idle() const noexcept {
  return all_have_left() && !(calls_.is_in_use && calls_.is_in_use());
}

bool workers::has_unread() const noexcept {
  for (std::uint32_t i = 0; i < setups_.size(); ++i) {
    if (calls_.has_unread(i)) return true;
  }
  return false;
}

// ---- starting -----------------------------------------------------------------------------------

void workers::start_locked(std::uint32_t worker) noexcept {
  if (is_quiet_ || is_stopping_ || has_failed() || state_of(worker) != worker_state::left) return;
  worker_control& control = *setups_[worker].control;
  // Set the state to `running` before the start, because the worker itself changes its state only
  // when it leaves or decides to stay.
  store_release(&control.state, static_cast<std::uint32_t>(worker_state::running));
  starts_.fetch_add(1, std::memory_order_relaxed);
  try {
    device_->start(worker, setups_[worker]);
  } catch (const std::exception& e) {
    store_release(&control.state, static_cast<std::uint32_t>(worker_state::left));
    if (failure_.empty()) failure_ = e.what();
  }
  has_notice_ = true;
  wanted_.notify_one();
}

void workers::wake_slow(std::uint32_t worker) noexcept {
  const time_point deadline = clock::now() + decision_time;
  while (state_of(worker) == worker_state::leaving && clock::now() < deadline)
    spin_pause();
  const std::lock_guard guard(mutex_);
  start_locked(worker);
}

void workers::add_lane(std::uint32_t worker, std::uint32_t lane) noexcept {
  const std::lock_guard guard(mutex_);
  worker_control& control = *setups_[worker].control;
  store_release(&control.lanes, control.lanes | 1U << lane);
}

void workers::remove_lane(std::uint32_t worker, std::uint32_t lane) noexcept {
  const std::lock_guard guard(mutex_);
  worker_control& control = *setups_[worker].control;
  store_release(&control.lanes, control.lanes & ~(1U << lane));
}

// ---- looking after ------------------------------------------------------------------------------

void workers::expect_soon() noexcept {
  expected_since_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  const std::lock_guard guard(mutex_);
  has_notice_ = true;
  wanted_.notify_one();
}

nanoseconds workers::interval() const noexcept {
  const time_point since{time_point::duration(expected_since_.load(std::memory_order_relaxed))};
  return std::clamp<nanoseconds>((clock::now() - since) / 8, min_interval, check_interval);
}

void workers::look(time_point now) noexcept {
  time_point::rep due = next_poll_.load(std::memory_order_relaxed);
  const time_point::rep next = (now + check_interval).time_since_epoch().count();
  if (now.time_since_epoch().count() < due ||
      !next_poll_.compare_exchange_strong(due, next, std::memory_order_relaxed)) {
    return;
  }
  check();
}

void workers::check() noexcept {
  try {
    if (const auto why = device_->failure()) fail(*why);
  } catch (const std::exception& e) {
    fail(e.what());
  }
  for (std::uint32_t i = 0; i < setups_.size(); ++i) {
    if (state_of(i) == worker_state::left && calls_.has_unread(i)) wake_slow(i);
  }
}

void workers::look_after_workers() {
  std::unique_lock lock(mutex_);
  bool may_sleep = false;
  while (!is_stopping_) {
    const auto is_wanted = [this] { return has_notice_ || is_stopping_; };
    // Wait without a timeout if everything is idle, and after a failure, because workers that have
    // failed never report that they have left.
    if (has_failed() || may_sleep) {
      wanted_.wait(lock, is_wanted);
    } else {
      wanted_.wait_for(lock, interval(), is_wanted);
    }
    has_notice_ = false;
    const std::string could_not_start = failure_;
    lock.unlock();
    if (!could_not_start.empty() && !has_failed()) fail(could_not_start);
    // Check whether the workers are idle before receive(). If the check came after it, a worker
    // could send a reply and leave in between, and nobody would read the reply while this thread
    // sleeps.
    may_sleep = is_idle();
    calls_.receive();
    check();
    lock.lock();
    // Stay awake if there are messages for a worker that has just left, because the worker has to
    // be started again.
    may_sleep = may_sleep && !has_unread();
  }
}

// ---- leaving ------------------------------------------------------------------------------------

void workers::command(worker_command what) noexcept {
  for (const worker_setup& s : setups_)
    store_release(&s.control->command, static_cast<std::uint32_t>(what));
}

bool workers::quiesce(time_point deadline) {
  {
    std::unique_lock lock(mutex_);
    const auto is_free = [this] { return !is_quiet_ || is_stopping_; };
    if (!resumed_.wait_until(lock, deadline, is_free)) return false;
    is_quiet_ = true;
    command(worker_command::leave);
  }
  try {
    while (!all_have_left() && !has_failed()) {
      if (clock::now() >= deadline) {
        resume();
        return false;
      }
      std::this_thread::yield();
    }
    for (std::uint32_t i = 0; i < setups_.size() && !has_failed(); ++i)
      device_->join(i);
  } catch (...) {
    resume();
    throw;
  }
  return true;
}

void workers::resume() noexcept {
  {
    const std::lock_guard guard(mutex_);
    if (is_stopping_) return;
    is_quiet_ = false;
    command(worker_command::serve);
    resumed_.notify_one();
  }
  for (std::uint32_t i = 0; i < setups_.size(); ++i) {
    if (calls_.has_unread && calls_.has_unread(i)) wake(i);
  }
}

void workers::set_idle(nanoseconds idle) noexcept {
  const std::lock_guard guard(mutex_);
  for (worker_setup& s : setups_) {
    s.idle_ns = static_cast<std::uint64_t>(idle.count());
    s.lifetime_ns = lifetime_ns_for(s.idle_ns);
  }
}

void workers::fail(const std::string& why) noexcept {
  {
    const std::lock_guard guard(mutex_);
    if (has_failed_.load(std::memory_order_relaxed)) return;
    try {
      failure_ = why;
    } catch (const std::bad_alloc&) {
      // Ignore the lack of memory for the text, because the device must count as failed in any
      // case.
    }
    has_failed_.store(true, std::memory_order_release);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(failure_event_.get(), &one, sizeof one);
}

void workers::give_up(const std::string& why) noexcept {
  is_given_up_.store(true);
  // Tell the workers that no replies will come. A worker that waits for a reply of the host would
  // otherwise wait for its whole timeout.
  command(worker_command::end);
  fail(why);
}

bool workers::has_faulted() const noexcept {
  try {
    return device_->failure().has_value();
  } catch (const std::exception&) {
    return true;
  }
}

std::string workers::failure() const {
  const std::lock_guard guard(mutex_);
  return failure_;
}

bool workers::stop(time_point deadline) noexcept {
  {
    const std::lock_guard guard(mutex_);
    if (is_stopped_) return true;
    is_stopped_ = is_stopping_ = true;
    is_quiet_ = true;
    command(worker_command::leave);
    wanted_.notify_one();
    resumed_.notify_all();
  }
  monitor_.join();
  const time_point last_replies = clock::now() + (has_failed() ? nanoseconds{0} : reply_time);
  while (!is_idle() && !is_given_up_.load() && !has_faulted() && clock::now() < deadline) {
    if (clock::now() >= last_replies) command(worker_command::end);
    if (calls_.receive) calls_.receive();
    std::this_thread::yield();
  }
  if (is_idle()) return true;
  command(worker_command::end);
  device_->abandon();
  return false;
}

} // namespace farcall::cuda
