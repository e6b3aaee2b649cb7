// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The floor of calls of a GPU: one word, or one slot, there and back over the bus, with no work
/// between. A kernel on the current device echoes, and ends by itself after a timeout. The device
/// must be idle. Results are nanoseconds of a round trip; errors of CUDA, and a device that does
/// not reply, throw std::runtime_error.
namespace farcall::gpu {

/// Numbers of warps that poll for a word, one after the other: with one warp, a word waits on
/// average for half a load before the load that finds it begins.
inline constexpr std::array<unsigned, 4> floor_warps{1, 2, 4, 8};

/// Measures a word that so many warps of the device poll for, and one of them stores back. A sample
/// is the time of `trips` round trips, divided by their number.
[[nodiscard]] std::vector<double> time_flags_over_bus(std::size_t samples, std::size_t trips,
                                                      unsigned warps);
/// Measures with the fastest number of warps, which is the floor. The samples are in any order.
[[nodiscard]] std::vector<double> time_floor_over_bus(std::size_t samples, std::size_t trips);

/// Measures a slot of a lane, with so many bytes in it, which one warp sends back.
[[nodiscard]] std::vector<double> time_slots_over_bus(std::size_t samples, std::uint32_t bytes);

} // namespace farcall::gpu
