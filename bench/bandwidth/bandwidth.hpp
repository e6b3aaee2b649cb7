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

/// Blocks that are copied, as far as options and links allow.
inline constexpr std::array<std::size_t, 14> block_sizes{
    8,         64,      512,     1 * kib,  4 * kib,  16 * kib,  64 * kib,
    256 * kib, 1 * mib, 4 * mib, 16 * mib, 64 * mib, 256 * mib, gib};

struct bandwidth_options : bench_options {
  std::size_t max_bytes = 0; ///< 0: as much as is usual for the link
  std::string pages = "both";
  bool kernels = false;      ///< the ways to copy instead of put and get
  bool unregistered = false; ///< memory in no segment, on both sides
  bool fresh = false;        ///< such memory is written and read by its owners between copies
  std::size_t threads = 1;   ///< that copy such memory at once, beside one alone
};

/// `put` and `get` over a connection against bare copies over one.
int run_bandwidth_over_connection(const bandwidth_options& options);

/// Each way to copy by itself.
int run_bandwidth_of_kernels(const bandwidth_options& options);

/// put and get of memory that is in no segment of farcall's, on either side.
int run_bandwidth_of_unregistered(const bandwidth_options& options);

/// How copies take turns.
struct turns {
  std::size_t batches = 0; ///< samples of each copy
  std::size_t copies = 0;  ///< of one kind in a sample
  bool is_warm = true;     ///< each is made once untimed before it counts
  /// What has to be done before the copies of a kind, by its number; may be empty.
  std::function<void(std::size_t)> before = {};
};

/// Nanoseconds per copy, for each kind. They take turns within each batch, so that a change of the
/// machine strikes all of them, and when they are warm none finds the caches as another one left
/// them.
[[nodiscard]] std::vector<summary> take_turns(const turns& how,
                                              std::span<const std::function<void()>> kinds);

/// libc's copy, neither inlined nor dropped by the compiler when nobody reads what was copied.
[[nodiscard]] std::function<void()> libc_copy(std::span<std::byte> to,
                                              std::span<const std::byte> from);

/// Copies in a sample: so many that reading the clock does not count, and `most` of small blocks.
[[nodiscard]] std::size_t copies_of(std::size_t bytes, std::size_t most);

/// Of the median.
[[nodiscard]] double mib_per_second(const summary& ns, std::size_t bytes);

/// Puts a pattern to the target and gets it back, which touches all memory that takes part. Throws
/// failed_run when something else comes back.
void check_round_trip(std::span<std::byte> from, std::span<std::byte> back,
                      buffer<std::byte>& remote);

/// The blocks that are measured: none above what the options say, else above `usual`, and in no
/// case above `most`.
[[nodiscard]] std::vector<std::size_t> chosen_sizes(const bandwidth_options& options,
                                                    std::size_t usual, std::size_t most);

/// The last cells of a row: put and get as p1, p50, p99 each, and the floor.
void append_spread(std::vector<std::string>& cells, const summary& put, const summary& get,
                   const summary& floor);

/// What was measured, in the forms that people and programs read.
struct bandwidth_output {
  json rows;
  std::string table;
  std::vector<chart> charts;
  std::vector<std::string> left_out; ///< with the reasons
};

/// Prints the rows or the table, and what was left out, and draws what shall be drawn.
void print_bandwidth(const bandwidth_options& options, bench_session& session,
                     bandwidth_output output);

/// Bytes of memory that this machine has to give.
[[nodiscard]] std::size_t available_memory();

} // namespace farcall::tool
