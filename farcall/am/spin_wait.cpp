// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/spin_wait.hpp>

#include <sched.h>
#include <sys/resource.h>

namespace farcall::am {
namespace {

/// Number of yields in which a thread asks the kernel once whether another thread ran. The thread
/// does not ask at each yield, because asking takes as long as a yield to which no other thread
/// responds.
constexpr unsigned ask_interval = 16;

/// Returns how often another thread has taken the processor from the calling thread.
long context_switches() noexcept {
  rusage used{};
  if (::getrusage(RUSAGE_THREAD, &used) != 0) return 0;
  return used.ru_nvcsw + used.ru_nivcsw;
}

yield_outcome yield_and_ask() noexcept {
  const long before = context_switches();
  const time_point start = clock::now();
  ::sched_yield();
  const auto away = clock::now() - start;
  return {.was_taken = context_switches() != before, .away = away};
}

} // namespace

bool spin_wait::look() noexcept {
  const time_point now = clock::now();
  if (started_ == time_point{}) started_ = now;
  if (now >= deadline_ || now - started_ >= policy_.spin) return true;
  const bool oversubscribed = oversubscribed_->load(std::memory_order_relaxed);
  if (oversubscribed || now - started_ >= policy_.yield_after) {
    interval_ = yield_interval;
    static thread_local unsigned yields = 0;
    if (yields++ % ask_interval != 0) {
      ::sched_yield();
    } else if (const bool still = is_oversubscribed(yield_and_ask(), policy_);
               still != oversubscribed) {
      oversubscribed_->store(still, std::memory_order_relaxed);
    }
  }
  return false;
}

} // namespace farcall::am
