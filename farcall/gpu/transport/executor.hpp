#pragma once

#include <farcall/gpu/transport/slot.hpp>
#include <farcall/gpu/transport/worker_control.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstdint>

namespace farcall::cuda {

/// Lanes that one worker serves at most.
inline constexpr std::uint32_t lanes_per_worker = 8;

/// After this time a worker leaves that is never idle, and is started again: else what waits for an
/// idle device would wait for ever. Not sooner than an idle one.
[[nodiscard]] constexpr std::uint64_t lifetime_ns_for(std::uint64_t idle_ns) noexcept {
  constexpr std::uint64_t shortest = 200'000'000;
  return idle_ns > shortest ? idle_ns : shortest;
}

/// How far a worker is with a request. Teams are told, for those who measure.
enum class worker_stage : std::uint32_t {
  found,    ///< by the subgroup that is going to serve it, mostly
  claimed,  ///< it is served now
  begun,    ///< its handler runs next
  ended,    ///< its handler has run
  answered, ///< the reply is on its way
};
inline constexpr std::uint32_t worker_stages = 5;

/// What a worker on a device is told when it starts. Addresses are the device's.
struct worker_setup {
  worker_control* control;
  std::byte* first_lane;     ///< block of this worker's lane 0
  std::uint64_t lane_stride; ///< from there to its next one
  lane_memory* host_calls;   ///< the lane that the worker itself opens to the host
  const std::uint64_t* handlers;
  std::uint32_t handler_count;
  std::uint32_t lanes; ///< at most lanes_per_worker
  std::uint32_t ring_bytes;
  std::uint32_t node;
  std::uint64_t idle_ns;     ///< without a message for that long, the worker leaves
  std::uint64_t lifetime_ns; ///< see lifetime_ns_for()
  std::uint64_t call_ns;     ///< a reply of the host that takes longer is not waited for

  [[nodiscard]] FARCALL_HOST_DEVICE lane_memory* lane(std::uint32_t i) const noexcept {
    return reinterpret_cast<lane_memory*>(first_lane + i * lane_stride);
  }
};

} // namespace farcall::cuda
