// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/runner/session.hpp>

#include <optional>
#include <string>
#include <vector>

/// Goals of calls over shared memory, and the part of a call's time that is the engine's.
namespace farcall::tool {

/// Goal of a call: at most `factor` times the time of its records alone (figure::ring_only), plus
/// `ns` nanoseconds.
struct call_goal {
  struct bound {
    double factor;
    double ns;
  };
  bound shared_cache;    ///< for two processors that share a cache
  bound separate_caches; ///< for two processors that share none
};

/// Floor in nanoseconds below which the two processors share a cache.
inline constexpr double shared_cache_floor = 150;

inline constexpr call_goal empty_goal{{1, 25}, {1, 40}};
inline constexpr call_goal fixed_goal{{1, 20}, {1, 40}};
inline constexpr call_goal sums_goal{{1, 25}, {1, 40}};
inline constexpr call_goal payload_goal{{1.15, 0}, {1.15, 0}};
/// Longest argument that has the payload goal, in bytes.
inline constexpr std::size_t max_payload_goal = 16384;
inline constexpr call_goal window_256_goal{{0, 22}, {0, 45}};
inline constexpr call_goal window_1024_goal{{0, 20}, {0, 45}};
/// Most times the time of an empty call that a call may take whose handler returns a ready future,
/// or replies by a reply object.
inline constexpr double max_handler_ratio = 1.25;

/// Returns the goal in nanoseconds for the processors of the figure's floor. Requires
/// figure::ring_only.
[[nodiscard]] double nanoseconds_of(const call_goal& goal, const figure& f);

/// Returns the cells "ring only", "engine" and "goal" of a table row, empty as far as the figure
/// has no such value. The engine's time is the difference of the medians of the figure and of its
/// records alone.
[[nodiscard]] std::vector<std::string> engine_cells(const figure& f);

/// Returns figure_json(), and "ring_only" (percentiles), "engine" and "goal" as far as the figure
/// has such values.
[[nodiscard]] json engine_json(const figure& f);

} // namespace farcall::tool
