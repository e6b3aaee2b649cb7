// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/service_thread.hpp>

#include <utility>

#include <pthread.h>

namespace farcall {
namespace {

/// Waits until `is_done` returns true, at most until `deadline`. Returns the last value of
/// `is_done`.
template <class F>
bool wait_until(std::condition_variable& change, std::unique_lock<std::mutex>& lock,
                time_point deadline, F is_done) {
  if (deadline != no_deadline) return change.wait_until(lock, deadline, is_done);
  change.wait(lock, is_done);
  return true;
}

/// Returns the processors on which the calling thread may run.
std::optional<cpu_set_t> own_processors() noexcept {
  cpu_set_t own;
  if (::sched_getaffinity(0, sizeof own, &own) != 0) return std::nullopt;
  return own;
}

} // namespace

service_thread::service_thread(const char* name, step work)
    : name_(name), work_(std::move(work)), processors_(own_processors()) {}

void service_thread::start() {
  if (has_started_) return;
  thread_ = library_thread(name_, [this] { run(); });
  has_started_ = true;
}

void service_thread::run() noexcept {
  // The thread has inherited the processors of the caller of submit(). If the system refuses
  // others, the thread keeps these.
  if (processors_)
    (void)::pthread_setaffinity_np(::pthread_self(), sizeof *processors_, &*processors_);
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool is_last = is_stopping_;
    is_notified_ = false;
    const time_point next = work_(lock);
    if (next == at_once || is_notified_) continue;
    if (is_last) break;
    if (is_stopping_) continue;
    if (next == no_deadline) {
      is_idle_ = true;
      ended_.notify_all();
    }
    (void)wait_until(work_due_, lock, next, [this] { return is_notified_ || is_stopping_; });
    is_idle_ = false;
  }
  has_ended_ = true;
  ended_.notify_all();
}

bool service_thread::drain(time_point deadline) noexcept {
  std::unique_lock lock(mutex_);
  if (!has_started_ || thread_.is_current()) return true;
  return wait_until(ended_, lock, deadline,
                    [this] { return has_ended_ || (is_idle_ && !is_notified_); });
}

bool service_thread::stop(time_point deadline) noexcept {
  {
    std::unique_lock lock(mutex_);
    is_stopping_ = true;
    if (!has_started_) return true;
    work_due_.notify_one();
    if (deadline != no_deadline && !thread_.is_current() &&
        !wait_until(ended_, lock, deadline, [this] { return has_ended_; })) {
      thread_.release();
      return false;
    }
  }
  thread_.join();
  return true;
}

} // namespace farcall
