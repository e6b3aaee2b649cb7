#include <farcall/am/worker_group.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace farcall::am {
namespace {

/// So long a request waits before its lane is taken over. The barrier for it and the lines of the
/// lane cost about as much: nobody loses more than twice what knowing the future would have saved.
constexpr std::chrono::microseconds long_wait{20};

/// Between two looks of the thread that watches, each of which takes it some microseconds.
constexpr std::chrono::milliseconds watch_interval{2};

} // namespace

bool worker_group::take_over(worker& w, bool at_once) noexcept {
  if (!w.shares_lanes()) return false;
  // Whoever has it may be at the same.
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
  // One that serves a single lane keeps nobody else waiting.
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& w) { return !w->is_asleep() && w->lanes_here() > 1; });
}

void worker_group::is_awake(const worker& w) noexcept {
  if (!w.shares_lanes() || w.is_asleep() || w.lanes_here() < 2) return;
  // Partner: the fence in watch(). Either we see that nobody watches, or it sees that we are awake.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_watching_.load(std::memory_order_relaxed)) return;
  is_watching_.store(true, std::memory_order_relaxed);
  notify(wakes_watch_);
}

time_point worker_group::watch() noexcept {
  if (!is_watching_.load(std::memory_order_relaxed)) return no_deadline;
  if (!is_any_awake()) {
    is_watching_.store(false, std::memory_order_relaxed);
    // Partner: the fence in is_awake().
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
    // It looks for itself what it can take.
    if (sleeper != workers_.end()) notify((*sleeper)->wakes());
  }
  return now + watch_interval;
}

} // namespace farcall::am
