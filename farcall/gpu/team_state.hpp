// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/transport/device_endpoint.hpp>
#include <farcall/gpu/transport/executor.hpp>
#include <farcall/gpu/transport/thread_team.hpp>

#include <cstdint>

/// State that the threads of a team on a device share.
namespace farcall::am {

inline constexpr std::uint64_t device_team_mark = 0x6d61'6574'6c61'6366;

/// Maximum number of subgroups of a team that poll for messages. More would contend for the bus.
inline constexpr std::uint32_t max_pollers = 8;

/// Current activity of the whole team. All of its subgroups read it and act by it.
enum class team_step : std::uint32_t {
  serve,      ///< each subgroup polls, and serves requests by itself
  run_by_all, ///< all threads run the function of the current request
  leave,
};

/// The team's cache of entries of the device's table of handlers, because the table is in slower
/// memory. A key has one possible place, which is the remainder of the key divided by the number of
/// places.
struct handler_cache {
  static constexpr std::uint32_t places = 16;
  std::uint32_t key[places];
  std::uint64_t code[places]; ///< as in the table
};

/// State that a team shares while its worker runs. A subgroup may serve a request only while it
/// holds the claim. One subgroup at a time holds the claim.
struct device_team_state {
  // ---- written by the subgroup that holds the claim; other subgroups may read single words at any
  // time, by the team's load()
  cuda::device_endpoint lanes[cuda::lanes_per_worker];
  std::uint32_t step; ///< a team_step
  std::uint32_t
      /// Bit i is set if messages were taken from lane i, and the host has not been told yet.
      unreported_lanes;
  device_request request;
  std::uint64_t code; ///< of the request
  std::uint32_t request_slot;
  /// True if the host must be told at once that the message was taken, because the message is a
  /// rendezvous record or a notice.
  bool is_told_at_once;
  handler_cache handlers;
  alignas(16) std::uint32_t reply[cuda::slot_words]; ///< header and body of a short reply
  cuda::device_endpoint host;                        ///< endpoint of the lane for calls to the host
  alignas(16) std::uint32_t host_message[cuda::slot_words];

  // ---- written by all subgroups
  std::uint32_t claim;      ///< see message_loop::claim()
  std::uint32_t waiting;    ///< bit i: subgroup i is waiting for the claim
  std::uint32_t has_served; ///< 1 if a request was served since idle_since was last updated
  std::uint32_t open_lanes; ///< lanes that the host has opened, one bit for each
  std::uint64_t idle_since;
  alignas(16) std::uint32_t messages[max_pollers][cuda::slot_words]; ///< found by each

  // ---- constant while the worker runs
  /// Equals device_team_mark while the worker runs. The mark distinguishes workers from launched
  /// kernels, which have no team, and whose shared memory has arbitrary content.
  std::uint64_t mark;
  /// Copy of the worker's setup. The copy is in shared memory, since threads cannot read another
  /// thread's own memory.
  cuda::worker_setup setup;
  std::uint64_t begun; ///< when the worker started
};

#ifdef __CUDACC__
/// Shared memory of a block. The team's state is at its beginning.
extern __shared__ __align__(16) unsigned char farcall_team_memory[];
#endif

/// Returns the state of the calling thread's team. Returns null on ordinary nodes and in launched
/// kernels.
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

/// Returns the number of the calling thread in its team, even if it alone runs the function.
/// Returns 0 on ordinary nodes.
[[nodiscard]] FARCALL_HOST_DEVICE inline std::uint32_t device_thread() noexcept {
#ifdef FARCALL_ON_GPU
  return threadIdx.x;
#else
  const cuda::thread_team* const team = cuda::thread_team::current;
  return team == nullptr ? 0 : team->rank();
#endif
}

/// True if only one thread of a team runs the calling function.
[[nodiscard]] FARCALL_HOST_DEVICE inline bool is_run_by_one() noexcept {
  const device_team_state* const team = current_device_team();
  return team != nullptr && !team->request.is_by_all;
}

} // namespace farcall::am
