// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/thread_team.hpp>

#include <cstdint>

/// Operations of a team, for functions that run on devices. Functions on ordinary nodes can use
/// them too, and have a team of one thread.
namespace farcall::device {

/// The threads that run a function together: a block of a GPU for team functions, and one thread
/// for fc::device_fn and fc::pure_fn.
class team {
 public:
  /// Returns the number of this thread, from 0 to size() - 1.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t rank() const noexcept {
    return am::is_run_by_one() ? 0 : am::device_thread();
  }
  /// Returns the number of threads in the team.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t size() const noexcept {
    if (am::is_run_by_one()) return 1;
#ifdef FARCALL_ON_GPU
    return blockDim.x;
#else
    const cuda::thread_team* t = cuda::thread_team::current;
    return t == nullptr ? 1 : t->size();
#endif
  }
  /// Barrier: waits for all threads of the team, which must all call it. Writes of each thread
  /// before the call are visible to all of them afterwards. Never fails.
  FARCALL_HOST_DEVICE void sync() const {
    if (am::is_run_by_one()) return;
#ifdef FARCALL_ON_GPU
    __syncthreads();
#else
    if (cuda::thread_team* t = cuda::thread_team::current; t != nullptr) t->sync();
#endif
  }
};

/// Returns the team that runs the calling function.
[[nodiscard]] FARCALL_HOST_DEVICE inline team this_team() noexcept { return {}; }

} // namespace farcall::device
