// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/requester.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/memory/counters.hpp>

#include <list>
#include <memory>
#include <mutex>

namespace farcall::am {

/// A lane that outlives its engine, and the segment with the lane's counters.
struct lane_left_behind {
  std::shared_ptr<counter_segment> counters;
  std::unique_ptr<requester> lane; ///< destroyed before the counters
};

/// Lanes that outlive their engines. The list is never destroyed, because pending calls may be held
/// until the process ends.
struct lanes_left_behind {
  std::mutex mutex;
  std::list<lane_left_behind> all;

  static lanes_left_behind& instance() {
    static auto* const lanes = new lanes_left_behind;
    return *lanes;
  }

  /// Frees the lanes whose pending calls have no holder any more. Call with the mutex held.
  void reap() noexcept {
    std::erase_if(all, [](const lane_left_behind& left) {
      biased_lock& guard = left.lane->guard();
      guard.lock();
      const bool is_held = left.lane->taken() != 0;
      guard.unlock();
      // Wait for the guard, because the thread that gave the last pending call back may still be
      // inside the lane.
      if (!is_held) guard.settle();
      return !is_held;
    });
  }
};

} // namespace farcall::am
