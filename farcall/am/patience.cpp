#include <farcall/am/patience.hpp>

#include <sched.h>

namespace farcall::am {

bool patience::look() noexcept {
  looked_ = clock::now();
  if (started_ == time_point{}) started_ = looked_;
  if (looked_ >= deadline_ || looked_ - started_ >= policy_.spin) return true;
  if (looked_ - started_ >= policy_.yield_after) {
    interval_ = yield_interval;
    ::sched_yield();
  }
  return false;
}

} // namespace farcall::am
