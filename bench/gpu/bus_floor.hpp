#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

/// What no call of a GPU can beat: one word, or one slot, there and back over the bus, with nothing
/// between. A kernel on the current device answers, and ends by itself when nothing comes for too
/// long. The device has to be idle. Nanoseconds of a round trip; CUDA's errors, and a device that
/// does not answer, are std::runtime_error.
namespace farcall::gpu {

/// How many warps may look for a word, one after the other: with one, a word waits on average for
/// half a look before the one that finds it begins.
inline constexpr std::array<unsigned, 4> floor_warps{1, 2, 4, 8};

/// A word that so many warps of the device look for, and one of them stores back. A sample is the
/// time of `trips` round trips, divided by their number.
[[nodiscard]] std::vector<double> time_flags_over_bus(std::size_t samples, std::size_t trips,
                                                      unsigned warps);
/// The same with as many warps as are fastest: the floor. In any order.
[[nodiscard]] std::vector<double> time_floor_over_bus(std::size_t samples, std::size_t trips);

/// A slot as lanes use them, with so many bytes in it, that one warp sends back.
[[nodiscard]] std::vector<double> time_slots_over_bus(std::size_t samples, std::uint32_t bytes);

} // namespace farcall::gpu
