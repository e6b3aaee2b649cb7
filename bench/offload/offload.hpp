// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "goals.hpp"
#include "variants.hpp"

#include <bench/runner/ring_only.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/farcall.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

/// The figures of `farcall bench offload`, for processes and for devices, which run different kinds
/// of functions.
namespace farcall::tool {

struct offload_figures {
  figure sync_empty;
  figure sync_fixed; ///< sync with the function fixed at compile time
  figure sync_2d;
  std::vector<std::pair<std::size_t, figure>> payload;
  std::vector<std::pair<std::size_t, figure>> async;
  std::optional<figure> map; ///< for processes only
  figure post;
  std::optional<call_variants> variants; ///< over shared memory only
  std::vector<figure> launches;          ///< of a GPU: calls without resident workers
  std::string left_out; ///< figures that this kind of target cannot have; empty if it has all
};

inline constexpr std::array<std::size_t, 11> windows{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
inline constexpr std::array<std::size_t, 5> quick_windows{1, 16, 64, 256, 1024};
inline constexpr std::size_t sync_calls = 1000;
inline constexpr std::size_t post_calls = 4096;

[[nodiscard]] inline std::span<const std::size_t> windows_of(const bench_options& options) {
  if (options.quick) return quick_windows;
  return windows;
}

/// Calls in a batch: many times the window, so that filling and emptying it hardly count, but
/// otherwise few, so that short batches often escape interruptions.
[[nodiscard]] constexpr std::size_t pipelined_calls(std::size_t window) {
  return std::max<std::size_t>(1000, 16 * window);
}

inline void require(bool right, const char* what) {
  if (!right) throw failed_run(fmt::format("wrong result: {}", what));
}

/// Measures the records of calls alone, then the calls by `measure`. `rings` is null unless calls
/// go through shared memory.
template <class Measure>
[[nodiscard]] figure beside_rings(bench_session& session, ring_only* rings,
                                  const call_records& records, std::size_t calls,
                                  const call_goal* goal, const Measure& measure) {
  if (rings == nullptr) return measure();
  rings->use(records, calls);
  const summary alone = session.measure("ring only", *rings).ns;
  figure f = measure();
  f.ring_only = alone;
  if (goal != nullptr) f.goal = nanoseconds_of(*goal, f);
  return f;
}

/// Packed bytes of the arguments and the result of offloaded::add.
inline constexpr call_records sums_records{2 * sizeof(double), sizeof(double)};

template <class F>
[[nodiscard]] figure measure_empty(bench_session& session, const std::string& what,
                                   std::size_t batches, F nothing) {
  return session.measure(what, batches, sync_calls, [&] {
    for (std::size_t i = 0; i < sync_calls; ++i)
      sync(session.target(), nothing);
  });
}

template <class F>
[[nodiscard]] figure measure_sums(bench_session& session, std::size_t batches, F add) {
  return session.measure("sync, two doubles in, one out", batches, sync_calls, [&] {
    for (std::size_t i = 0; i < sync_calls; ++i) {
      const auto x = static_cast<double>(i);
      require(sync(session.target(), add, x, 1.0) == x + 1.0, "sum of two doubles");
    }
  });
}

/// Keeps one call in flight per future: waits for the oldest before it makes the next, and for the
/// rest at the end.
template <class F>
void pipeline(const node& target, std::vector<future<double>>& window, std::size_t calls, F add) {
  double sum = 0;
  std::size_t slot = 0;
  for (std::size_t call = 0; call < calls; ++call) {
    future<double>& place = window[slot];
    if (place.valid()) sum += place.get();
    place = async(target, add, static_cast<double>(call), 1.0);
    if (++slot == window.size()) slot = 0;
  }
  for (future<double>& place : window) {
    if (place.valid()) sum += place.get();
  }
  const auto n = static_cast<double>(calls);
  require(sum == n * (n + 1) / 2, "the results of the pipelined calls do not add up");
}

template <class F>
[[nodiscard]] std::vector<std::pair<std::size_t, figure>>
measure_windows(bench_session& session, const bench_options& options, ring_only* rings, F add) {
  std::vector<std::pair<std::size_t, figure>> figures;
  for (const std::size_t depth : windows_of(options)) {
    std::vector<future<double>> window(depth);
    const std::size_t calls = pipelined_calls(depth);
    call_records records = sums_records;
    records.window = depth;
    const call_goal* const goal = depth == 256    ? &window_256_goal
                                  : depth == 1024 ? &window_1024_goal
                                                  : nullptr;
    figures.emplace_back(depth, beside_rings(session, rings, records, calls, goal, [&] {
                           return session.measure(
                               fmt::format("async, window {}, double back", depth),
                               options.batches_or(200, 20), calls,
                               [&] { pipeline(session.target(), window, calls, add); });
                         }));
  }
  return figures;
}

/// Measures maps: one future for a window of calls.
[[nodiscard]] figure measure_map(bench_session& session, std::size_t batches);

template <class F>
[[nodiscard]] figure measure_posts(bench_session& session, std::size_t batches, F nothing) {
  return session.measure("post, and a sync after the last", batches, post_calls, [&] {
    for (std::size_t i = 1; i < post_calls; ++i)
      post(session.target(), nothing);
    // Calls of one thread to one node run in order, so this reply means that all have run.
    sync(session.target(), nothing);
  });
}

[[nodiscard]] offload_figures measure_device(bench_session& session, const bench_options& options);

/// Returns the number of figures, without windows.
[[nodiscard]] std::size_t device_figures(link_kind kind);

} // namespace farcall::tool
