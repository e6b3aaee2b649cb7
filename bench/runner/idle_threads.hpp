// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>
#include <farcall/farcall.hpp>

#include <cstddef>
#include <latch>
#include <vector>

namespace farcall::tool {

/// Number of idle threads in measurements beside idle threads.
inline constexpr std::size_t idle_lane_count = 250;

/// Threads that have called once, so that each has a lane, and now sleep.
class idle_threads {
 public:
  /// Returns when all threads have called. The node outlives this object.
  idle_threads(const node& target, std::size_t count);
  idle_threads(const idle_threads&) = delete;
  idle_threads& operator=(const idle_threads&) = delete;
  idle_threads(idle_threads&&) = delete;
  idle_threads& operator=(idle_threads&&) = delete;
  ~idle_threads();

 private:
  std::latch called_;
  std::latch end_{1};
  std::vector<library_thread> threads_;
};

} // namespace farcall::tool
