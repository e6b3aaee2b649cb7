#pragma once

#include <bench/runner/options.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/json.hpp>

#include <farcall/farcall.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace farcall::tool {

struct bandwidth_options : bench_options {
  std::size_t max_bytes = 0; ///< 0: as much as is usual for the link
  std::string pages = "both";
};

/// `put` and `get` over a connection against bare copies over one.
int run_bandwidth_over_connection(const bandwidth_options& options);

/// Nanoseconds per operation.
[[nodiscard]] double time_one(std::size_t operations, const std::function<void()>& operation);

/// Puts a pattern to the target and gets it back, which touches all memory that takes part. Throws
/// failed_run when something else comes back.
void check_round_trip(std::span<std::byte> from, std::span<std::byte> back,
                      buffer<std::byte>& remote);

/// Those of `sizes` that are to be measured: none above what the options say, or above `usual`.
[[nodiscard]] std::vector<std::size_t> chosen_sizes(std::span<const std::size_t> sizes,
                                                    const bandwidth_options& options,
                                                    std::size_t usual);

/// Prints the rows or the table, and what was left out with the reasons.
void print_bandwidth(const bandwidth_options& options, bench_session& session, const json& rows,
                     const std::string& table, const std::vector<std::string>& left_out);

/// Bytes of memory that this machine has to give.
[[nodiscard]] std::size_t available_memory();

} // namespace farcall::tool
