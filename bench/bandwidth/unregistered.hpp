// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bandwidth.hpp"

#include <bench/report/statistics.hpp>
#include <bench/runner/local_memory.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// Figures of one length, on one kind of pages, by a number of threads at once.
struct unregistered_row {
  std::size_t bytes = 0; ///< of each thread's block
  pages kind = pages::small;
  std::size_t threads = 1;
  bool huge_here = false;   ///< pages of this process's memory, as found
  bool huge_target = false; ///< pages of the target's memory, as found
  summary copy;             ///< nanoseconds of a memcpy by each thread, within this process
  summary put;
  summary get;
  /// Copies between two processes without the library, by the faster way; for one thread only.
  std::optional<summary> bare_put = std::nullopt;
  std::optional<summary> bare_get = std::nullopt;

  /// Returns the bandwidth of all threads together at the median; 1 GB is 10^9 bytes.
  [[nodiscard]] double gb_per_second(const summary& ns) const {
    return static_cast<double>(bytes * threads) / ns.p50;
  }
};

/// Returns the block sizes: from 32 KiB on, each twice the one before it. Throws usage_problem for
/// options that --unregistered excludes.
[[nodiscard]] std::vector<std::size_t> unregistered_sizes(const bandwidth_options& options);

/// Returns why a length cannot be measured with that much available memory; empty if it can.
[[nodiscard]] std::string why_not_measured(std::size_t bytes, pages kind, std::size_t threads,
                                           std::size_t available);

/// Returns a table for each kind of pages.
[[nodiscard]] std::string unregistered_tables(const std::vector<unregistered_row>& rows);

/// Returns a chart for each kind of pages and number of threads.
[[nodiscard]] std::vector<chart> unregistered_charts(const std::vector<unregistered_row>& rows);

/// Returns the rows for programs.
[[nodiscard]] json unregistered_json(const std::vector<unregistered_row>& rows);

} // namespace farcall::tool
