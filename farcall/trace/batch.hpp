#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/trace/recorder.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farcall::trace {

/// A moment as two clocks show it, between which at most `round_trip` passed.
struct clock_sample {
  std::uint64_t own = 0;        ///< ticks of the process that has asked, halfway
  std::uint64_t hosts = 0;      ///< ticks of the host
  std::uint64_t round_trip = 0; ///< in ticks of the process
};

/// What requests for `key` and `handle` run in a process.
struct function_name {
  std::uint32_t key = 0;
  std::uint32_t handle = 0;
  std::string name;
};

/// What a process sends of its events to who makes the timeline.
struct batch {
  node_id node = no_node;
  std::int64_t process = 0;
  tick_source source = tick_source::steady_clock;
  double ticks_per_second = 0; ///< 0: not known yet
  std::vector<clock_sample> clocks;
  std::vector<function_name> functions; ///< that are new
  recorded events;
};

[[nodiscard]] std::vector<std::byte> encode(const batch& b);
/// Throws malformed_message. Kinds of events are checked; what they refer to is not.
[[nodiscard]] batch decode_batch(std::span<const std::byte> bytes);

} // namespace farcall::trace
