// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/report/model.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>

#include <farcall/farcall.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace farcall::tool {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t gib = 1024 * mib;

/// Sizes of copied blocks, unless options and links limit them.
inline constexpr std::array<std::size_t, 14> block_sizes{
    8,         64,      512,     1 * kib,  4 * kib,  16 * kib,  64 * kib,
    256 * kib, 1 * mib, 4 * mib, 16 * mib, 64 * mib, 256 * mib, gib};

struct bandwidth_options : bench_options {
  std::size_t max_bytes = 0; ///< 0 for the link's default
  std::string pages = "both";
  bool kernels = false;      ///< measure each copy kernel in place of put and get
  bool unregistered = false; ///< unregistered memory on both sides
  bool fresh = false;        ///< owners write and read unregistered memory between copies
  std::size_t threads = 1;   ///< threads that copy unregistered memory at once, beside a single one
};

/// Measures `put` and `get` over a connection against bare copies over TCP.
int run_bandwidth_over_connection(const bandwidth_options& options);

/// Measures each copy kernel.
int run_bandwidth_of_kernels(const bandwidth_options& options);

/// Measures put and get between unregistered memory.
int run_bandwidth_of_unregistered(const bandwidth_options& options);

/// Schedule of copies of several kinds.
struct turns {
  std::size_t batches = 0; ///< samples of each copy
  std::size_t copies = 0;  ///< copies of one kind in a sample
  bool is_warm = true;     ///< each copy is made once untimed before it is timed
  /// Prepares the copies of a kind, given by its number; may be empty.
  std::function<void(std::size_t)> before = {};
};

/// Returns nanoseconds per copy, for each kind. The kinds alternate within each batch, so that
/// changes of the machine affect all alike; warm copies find the caches as their own kind left
/// them.
[[nodiscard]] std::vector<summary> take_turns(const turns& how,
                                              std::span<const std::function<void()>> kinds);

/// Returns libc's memcpy, protected from being inlined or removed by the compiler.
[[nodiscard]] std::function<void()> libc_copy(std::span<std::byte> to,
                                              std::span<const std::byte> from);

/// Returns the copies in a sample: enough to hide the cost of reading the clock, at most `most`.
[[nodiscard]] std::size_t copies_of(std::size_t bytes, std::size_t most);

/// Returns the bandwidth at the median time.
[[nodiscard]] double mib_per_second(const summary& ns, std::size_t bytes);

/// Puts a pattern to the target and gets it back, which touches all memory involved. Throws
/// failed_run if the pattern has changed.
void check_round_trip(std::span<std::byte> from, std::span<std::byte> back,
                      buffer<std::byte>& remote);

/// Returns the block sizes up to the option's limit, or else up to `usual`, and never above `most`.
[[nodiscard]] std::vector<std::size_t> chosen_sizes(const bandwidth_options& options,
                                                    std::size_t usual, std::size_t most);

/// Appends the last cells of a row: p1, p50, p99 of put and of get, and the floor.
void append_spread(std::vector<std::string>& cells, const summary& put, const summary& get,
                   const summary& floor);

/// Results of a measurement, for people and for programs.
struct bandwidth_output {
  json rows;
  std::string table;
  std::vector<chart> charts;
  std::vector<std::string> left_out; ///< with reasons
};

/// Prints the rows as JSON or a table, with what was left out, and draws the charts.
void print_bandwidth(const bandwidth_options& options, bench_session& session,
                     bandwidth_output output);

/// Returns the available memory of this machine in bytes.
[[nodiscard]] std::size_t available_memory();

} // namespace farcall::tool
