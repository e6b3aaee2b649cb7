#pragma once

#include <farcall/gpu/team_state.hpp>
#include <farcall/gpu/transport/thread_team.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstdint>

/// What functions that run on devices can ask and do. They run on ordinary nodes too, where they
/// are a team of one thread.
namespace farcall::device {

/// The threads that run a function together: a block of a GPU, or one thread where the function is
/// called as fc::device_fn or fc::pure_fn.
class team {
 public:
  /// Number of this thread, from 0 to size() - 1.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t rank() const noexcept {
    return am::is_run_by_one() ? 0 : am::device_thread();
  }
  /// Number of threads in the team.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t size() const noexcept {
    if (am::is_run_by_one()) return 1;
#ifdef FARCALL_ON_GPU
    return blockDim.x;
#else
    const cuda::thread_team* t = cuda::thread_team::current;
    return t == nullptr ? 1 : t->size();
#endif
  }
  /// Waits for all threads of the team, which must all come here. What each has written before is
  /// seen by all afterwards. Never fails.
  FARCALL_HOST_DEVICE void sync() const {
    if (am::is_run_by_one()) return;
#ifdef FARCALL_ON_GPU
    __syncthreads();
#else
    if (cuda::thread_team* t = cuda::thread_team::current; t != nullptr) t->sync();
#endif
  }
};

/// The team that runs the calling function.
[[nodiscard]] FARCALL_HOST_DEVICE inline team this_team() noexcept { return {}; }

} // namespace farcall::device
