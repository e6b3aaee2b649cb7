#pragma once

#include <farcall/gpu/request.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/gpu/transport/executor.hpp>
#include <farcall/gpu/transport/thread_team.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstdint>

/// What a thread on a device knows of the team that it is one of.
namespace farcall::am {

inline constexpr std::uint64_t device_team_mark = 0x6d61'6574'6c61'6366;

/// What the team shares while it works.
struct device_team_state {
  cuda::device_endpoint lanes[cuda::lanes_per_worker];
  cuda::device_endpoint host; ///< for calls to the host
  /// device_team_mark while a worker runs: kernels that were launched are no team, and their shared
  /// memory is whatever it is.
  std::uint64_t mark;
  cuda::worker_setup setup; ///< here, since a thread's own memory is no other's
  device_request request;
  std::uint32_t request_slot;
  std::uint32_t current; ///< lane of the request
  bool was_long;         ///< the request lies in the lane's ring, and not in `message`
  std::uint32_t last;    ///< lane that was served before
  std::uint32_t command;
  std::uint32_t lanes_seen; ///< what the host says; the team goes by open_lanes
  std::uint32_t open_lanes;
  std::uint32_t last_look; ///< 1: the worker has said that it leaves
  std::uint64_t idle_since;
  enum class step : std::uint32_t { look, run, leave } next;
  alignas(16) std::uint32_t reply[cuda::slot_words]; ///< header and body of a short one
};

#ifdef __CUDACC__
/// Shared memory of a block, which begins with the state of its team.
extern __shared__ __align__(16) unsigned char farcall_team_memory[];
#endif

/// Of the team that the calling thread is one of; null on ordinary nodes, and in kernels that were
/// launched.
[[nodiscard]] FARCALL_HOST_DEVICE inline device_team_state* current_device_team() noexcept {
#ifdef FARCALL_ON_GPU
  auto* const state = reinterpret_cast<device_team_state*>(farcall_team_memory);
  return cuda::dynamic_shared_bytes() >= sizeof *state && state->mark == device_team_mark ? state
                                                                                          : nullptr;
#else
  const cuda::thread_team* const team = cuda::thread_team::current;
  return team == nullptr ? nullptr : static_cast<device_team_state*>(team->state());
#endif
}

/// Number of the calling thread in its team, whoever runs the function; 0 on ordinary nodes.
[[nodiscard]] FARCALL_HOST_DEVICE inline std::uint32_t device_thread() noexcept {
#ifdef FARCALL_ON_GPU
  return threadIdx.x;
#else
  const cuda::thread_team* const team = cuda::thread_team::current;
  return team == nullptr ? 0 : team->rank();
#endif
}

/// Whether one thread of a team runs the calling function alone.
[[nodiscard]] FARCALL_HOST_DEVICE inline bool is_run_by_one() noexcept {
  const device_team_state* const team = current_device_team();
  return team != nullptr && !team->request.is_by_all;
}

} // namespace farcall::am
