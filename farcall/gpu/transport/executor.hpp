// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/gpu/transport/slot.hpp>
#include <farcall/gpu/transport/worker_control.hpp>

#include <cstdint>

namespace farcall::cuda {

/// Maximum number of lanes that one worker serves.
inline constexpr std::uint32_t lanes_per_worker = 8;

/// Returns the lifetime of a worker with this idle timeout. A worker leaves at the end of its
/// lifetime even if it was never idle, and is started again. Without a lifetime, operations that
/// need an idle device could wait for ever.
[[nodiscard]] constexpr std::uint64_t lifetime_ns_for(std::uint64_t idle_ns) noexcept {
  constexpr std::uint64_t shortest = 200'000'000;
  return idle_ns > shortest ? idle_ns : shortest;
}

/// Stages of a request in a worker. The worker reports them to the team's note(), for measurements.
enum class worker_stage : std::uint32_t {
  found,   ///< the message was found, usually by the subgroup that will serve it
  claimed, ///< a subgroup has the claim, and serves the request
  begun,   ///< its handler runs next
  ended,   ///< its handler has run
  replied, ///< the reply was sent
};
inline constexpr std::uint32_t worker_stages = 5;

/// Parameters that a worker on a device gets at its start. Addresses are valid on the device.
struct worker_setup {
  worker_control* control;
  std::byte* first_lane;     ///< memory of this worker's lane 0
  std::uint64_t lane_stride; ///< distance in bytes from one lane's memory to the next
  lane_memory* host_calls;   ///< memory of the lane for calls to the host, which the worker opens
  const std::uint64_t* handlers;
  std::uint32_t handler_count;
  std::uint32_t lanes; ///< at most lanes_per_worker
  std::uint32_t ring_bytes;
  std::uint32_t node;
  std::uint64_t idle_ns;     ///< time without messages after which the worker leaves
  std::uint64_t lifetime_ns; ///< see lifetime_ns_for()
  std::uint64_t call_ns;     ///< timeout of calls to the host

  [[nodiscard]] FARCALL_HOST_DEVICE lane_memory* lane(std::uint32_t i) const noexcept {
    return reinterpret_cast<lane_memory*>(first_lane + i * lane_stride);
  }
};

} // namespace farcall::cuda
