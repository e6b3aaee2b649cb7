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

/// Subgroups of a team that look for messages; more would be in each other's way.
inline constexpr std::uint32_t most_lookers = 8;

/// What the team does.
enum class team_step : std::uint32_t {
  serve,      ///< each subgroup by itself
  run_by_all, ///< the function of the request, together
  leave,
};

/// Addresses of handlers that were looked up, by the last digits of their keys: the table is far.
struct handler_cache {
  static constexpr std::uint32_t places = 16;
  std::uint32_t key[places];
  std::uint64_t code[places]; ///< as in the table
};

/// What the team shares while it works. One subgroup at a time has the claim, and serves a request.
struct device_team_state {
  // ---- written by who has the claim; words that others read meanwhile, by the team's accesses
  cuda::device_endpoint lanes[cuda::lanes_per_worker];
  std::uint32_t step; ///< a team_step
  std::uint32_t
      untold_lanes; ///< bit i: messages of lane i were taken that the host was not told of
  device_request request;
  std::uint64_t code; ///< of the request
  std::uint32_t request_slot;
  bool is_told_at_once; ///< that it was taken: it lies in the lane's ring, or is a notice
  handler_cache handlers;
  alignas(16) std::uint32_t reply[cuda::slot_words]; ///< header and body of a short one
  cuda::device_endpoint host;                        ///< for calls to the host
  alignas(16) std::uint32_t host_message[cuda::slot_words];

  // ---- written by all subgroups
  std::uint32_t claim;      ///< see message_loop::claim()
  std::uint32_t waiting;    ///< bit i: subgroup i waits for the claim
  std::uint32_t has_served; ///< since idle_since was looked at
  std::uint32_t open_lanes; ///< as the host says
  std::uint64_t idle_since;
  alignas(16) std::uint32_t messages[most_lookers][cuda::slot_words]; ///< what each has found

  // ---- the same as long as the worker runs
  /// device_team_mark while it does: kernels that were launched are no team, and their shared
  /// memory is whatever it is.
  std::uint64_t mark;
  cuda::worker_setup setup; ///< here, since a thread's own memory is no other's
  std::uint64_t begun;      ///< when the worker started
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
