#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/counters.hpp>

#include <list>
#include <memory>
#include <mutex>

namespace farcall::am {

/// A lane that outlives its engine, and where it counts.
struct lane_left_behind {
  std::shared_ptr<counter_segment> counters;
  std::unique_ptr<requester> lane; ///< its end comes before that of the counters
};

/// Those of all engines that have ended. Never destroyed: what is in them may be held until the
/// very end.
struct lanes_left_behind {
  std::mutex mutex;
  std::list<lane_left_behind> all;

  static lanes_left_behind& instance() {
    static auto* const lanes = new lanes_left_behind;
    return *lanes;
  }

  /// With the mutex: frees those of which nothing is held any more.
  void reap() noexcept {
    std::erase_if(all, [](const lane_left_behind& left) {
      biased_lock& guard = left.lane->guard();
      guard.lock();
      const bool is_held = left.lane->taken() != 0;
      guard.unlock();
      // The thread that gave the last pending call back may not have left the lane yet.
      if (!is_held) guard.settle();
      return !is_held;
    });
  }
};

} // namespace farcall::am
