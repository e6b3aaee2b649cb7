// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Rates of calls of several threads to several targets.
namespace farcall::tool {

enum class call_kind : std::uint8_t { synchronous, pipelined };

/// Calls of one thread that are under way at a time, if they are pipelined.
inline constexpr std::size_t rate_window = 64;

/// Returns calls per second of all threads together, one sample per slice of time. Each thread
/// calls all targets in turn. The threads start for the measurement, and end with it.
[[nodiscard]] std::vector<double> measure_rate(const std::vector<node>& targets,
                                               std::size_t threads, call_kind kind,
                                               std::size_t slices, std::chrono::milliseconds slice);

} // namespace farcall::tool
