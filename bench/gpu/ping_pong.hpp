// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sampling.hpp"

#include <farcall/base/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

/// The host's side of a floor: stores a number, and waits until its partner stores the same number.
namespace farcall::gpu {

/// Number of flags, each in a line of its own. The place of a line in the processor's cache
/// matters, so several are used in turn, like slots.
inline constexpr std::size_t flag_places = 64;
struct alignas(128) flag {
  std::uint64_t number;
};
struct flag_board {
  flag ping[flag_places];
  flag pong[flag_places];
};

template <class Look>
void spin_until(Look&& look) {
  // Limit the wait, in case the partner has ended.
  constexpr std::uint64_t max_looks = 100'000'000;
  for (std::uint64_t looks = 0; !look(); ++looks) {
    spin_pause();
    if (looks > max_looks) throw std::runtime_error("the other side of the floor is silent");
  }
}

/// Returns the number of the last round trip of time_round_trips(); the first has number 1.
[[nodiscard]] constexpr std::uint64_t last_round_trip(std::size_t samples, std::size_t trips) {
  return std::uint64_t{samples + warm_up_of(samples)} * trips;
}

/// Returns the nanoseconds of `round_trip(number)`; a sample is the time of `trips` of them,
/// divided.
template <class RoundTrip>
[[nodiscard]] std::vector<double> time_round_trips(std::size_t samples, std::size_t trips,
                                                   RoundTrip&& round_trip) {
  std::uint64_t number = 0;
  std::vector<double> taken = sample(samples, [&] {
    for (std::size_t i = 0; i < trips; ++i)
      round_trip(++number);
  });
  for (double& t : taken)
    t /= static_cast<double>(trips);
  return taken;
}

/// Measures round trips of a flag, with a partner that stores each number back at its place.
[[nodiscard]] inline std::vector<double> time_flags(flag_board& b, std::size_t samples,
                                                    std::size_t trips) {
  return time_round_trips(samples, trips, [&](std::uint64_t number) {
    const std::size_t at = number % flag_places;
    std::atomic_ref(b.ping[at].number).store(number, std::memory_order_release);
    const std::atomic_ref reply(b.pong[at].number);
    spin_until([&] { return reply.load(std::memory_order_acquire) == number; });
  });
}

} // namespace farcall::gpu
