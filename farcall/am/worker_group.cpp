// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/worker_group.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace farcall::am {
namespace {

/// Time for which a request must wait before another worker takes over its lane. The time is about
/// as long as a takeover, which passes a barrier and moves the lane's cache lines. If the home
/// serves the request in this time, no takeover is wasted. Otherwise waiting and takeover take at
/// most twice as long as an immediate takeover.
constexpr std::chrono::microseconds long_wait{20};

/// Time between two checks of the watching thread. Each check takes some microseconds.
constexpr std::chrono::milliseconds watch_interval{2};

} // namespace

bool worker_group::take_over(worker& w, bool at_once) noexcept {
  if (!w.shares_lanes()) return false;
  // Give up if the mutex is locked, because another worker may be taking over a lane right now.
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard) return false;
  const time_point now = clock::now();
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    if (other.get() == &w || other->is_asleep()) return false;
    if (!other->is_overdue(worker::asker::worker)) return false;
    const std::optional<std::uint32_t> place =
        other->find_waiting(now, at_once ? now : now - long_wait);
    if (!place || !w.take(*other, *place)) return false;
    is_awake(w);
    return true;
  });
}

bool worker_group::is_any_awake() const noexcept {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& w) { return !w->is_asleep() && w->may_delay_requests(); });
}

void worker_group::is_awake(const worker& w) noexcept {
  if (!w.shares_lanes() || w.is_asleep() || !w.may_delay_requests()) return;
  // This fence pairs with the fence in watch(), because the watching thread may be about to stop.
  // Either this thread sees that no thread watches, or the watching thread sees that the worker is
  // awake and goes on watching.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_watching_.load(std::memory_order_relaxed)) return;
  is_watching_.store(true, std::memory_order_relaxed);
  notify(wakes_watch_);
}

time_point worker_group::watch() noexcept {
  if (!is_watching_.load(std::memory_order_relaxed)) return no_deadline;
  if (!is_any_awake()) {
    is_watching_.store(false, std::memory_order_relaxed);
    // This fence pairs with the fence in is_awake(). Either this thread sees a worker that has just
    // woken up, or that worker sees that no thread watches.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!is_any_awake()) return no_deadline;
    is_watching_.store(true, std::memory_order_relaxed);
  }
  const std::lock_guard guard(mutex_);
  const time_point now = clock::now();
  bool is_waiting = false;
  for (const auto& w : workers_) {
    if (!w->is_asleep() && w->is_overdue(worker::asker::watch) && w->find_waiting(now, now)) {
      is_waiting = true;
    }
  }
  if (is_waiting) {
    const auto sleeper = std::find_if(workers_.begin(), workers_.end(),
                                      [](const auto& w) { return w->is_asleep(); });
    // Wake any sleeping worker, which finds by itself the lane that it can take over.
    if (sleeper != workers_.end()) notify((*sleeper)->wakes());
  }
  return now + watch_interval;
}

} // namespace farcall::am
