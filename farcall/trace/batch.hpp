// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/trace/recorder.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farcall::trace {

/// Readings of two clocks at about the same time, when a process asks the host for its clock. The
/// times of the two readings differ by `round_trip` at most.
struct clock_sample {
  std::uint64_t own = 0;        ///< ticks of the requesting process, midway through the exchange
  std::uint64_t hosts = 0;      ///< ticks of the host
  std::uint64_t round_trip = 0; ///< duration of the exchange, in ticks of the process
};

/// Name of the function that a process runs for requests with `key` and `handle`.
struct function_name {
  std::uint32_t key = 0;
  std::uint32_t handle = 0;
  std::string name;
};

/// Events that a process sends to the process that makes the timeline.
struct batch {
  node_id node = no_node;
  std::int64_t process = 0;
  tick_source source = tick_source::steady_clock;
  double ticks_per_second = 0; ///< 0 if not known yet
  std::vector<clock_sample> clocks;
  std::vector<function_name> functions; ///< new ones only
  recorded events;
};

[[nodiscard]] std::vector<std::byte> encode(const batch& b);
/// Reads a batch, whose bytes are untrusted. Checks the kinds of the events. Does not check the
/// numbers by which events refer to lanes and names. Throws malformed_message.
[[nodiscard]] batch decode_batch(std::span<const std::byte> bytes);

} // namespace farcall::trace
