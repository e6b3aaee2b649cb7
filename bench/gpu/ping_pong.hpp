#pragma once

#include "sampling.hpp"

#include <farcall/base/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

/// The host's side of a floor: it stores a number, and waits for the same number from whoever
/// answers.
namespace farcall::gpu {

/// Flags lie in lines of their own. Where a line has its home in the processor's cache matters, so
/// several are used in turn, as slots are.
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
  // A partner that has gone must not be waited for.
  constexpr std::uint64_t most_looks = 100'000'000;
  for (std::uint64_t looks = 0; !look(); ++looks) {
    spin_pause();
    if (looks > most_looks) throw std::runtime_error("the other side of the floor is silent");
  }
}

/// Number of the last round trip of time_round_trips(); the first has number 1.
[[nodiscard]] constexpr std::uint64_t last_round_trip(std::size_t samples, std::size_t trips) {
  return std::uint64_t{samples + warm_up_of(samples)} * trips;
}

/// Nanoseconds of `round_trip(number)`; a sample is the time of `trips` of them, divided.
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

/// Round trips of a flag, with a partner who stores each number back at its place.
[[nodiscard]] inline std::vector<double> time_flags(flag_board& b, std::size_t samples,
                                                    std::size_t trips) {
  return time_round_trips(samples, trips, [&](std::uint64_t number) {
    const std::size_t at = number % flag_places;
    std::atomic_ref(b.ping[at].number).store(number, std::memory_order_release);
    const std::atomic_ref answer(b.pong[at].number);
    spin_until([&] { return answer.load(std::memory_order_acquire) == number; });
  });
}

} // namespace farcall::gpu
