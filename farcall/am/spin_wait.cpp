#include <farcall/am/spin_wait.hpp>

#include <sched.h>

namespace farcall::am {
namespace {

/// A yield that nobody takes is a short system call; one that is taken lasts two switches at least.
constexpr std::chrono::nanoseconds taken_offer{600};

/// Other waiting threads give the processor back soon. A thread that computes keeps it for
/// milliseconds, and must not get it before every short wait.
constexpr std::chrono::microseconds given_back{50};

} // namespace

bool spin_wait::look() noexcept {
  const time_point now = clock::now();
  if (started_ == time_point{}) started_ = now;
  if (now >= deadline_ || now - started_ >= policy_.spin) return true;
  const bool oversubscribed = oversubscribed_->load(std::memory_order_relaxed);
  if (oversubscribed || now - started_ >= policy_.yield_after) {
    interval_ = yield_interval;
    ::sched_yield();
    const auto away = clock::now() - now;
    const bool still = away > taken_offer && away < given_back;
    if (still != oversubscribed) oversubscribed_->store(still, std::memory_order_relaxed);
  }
  return false;
}

} // namespace farcall::am
