#pragma once

#include "bandwidth.hpp"

#include <bench/report/statistics.hpp>
#include <bench/runner/local_memory.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace farcall::tool {

/// What was measured of one length, on one kind of pages, by so many threads at once.
struct unregistered_row {
  std::size_t bytes = 0; ///< of each thread's block
  pages kind = pages::small;
  std::size_t threads = 1;
  bool huge_here = false;   ///< pages of the memory in this process, as found
  bool huge_target = false; ///< pages of the target's, as found
  summary copy;             ///< ns for a copy by each thread: libc memcpy within this process
  summary put;
  summary get;

  /// Of the median and of all threads together; 1 GB is 10^9 bytes.
  [[nodiscard]] double gb_per_second(const summary& ns) const {
    return static_cast<double>(bytes * threads) / ns.p50;
  }
};

/// The blocks to be measured: from 32 KiB on, each twice the one before it. Throws usage_problem
/// for what does not go with --unregistered.
[[nodiscard]] std::vector<std::size_t> unregistered_sizes(const bandwidth_options& options);

/// Why a length cannot be measured with so much memory available; empty when it can.
[[nodiscard]] std::string why_not_measured(std::size_t bytes, pages kind, std::size_t threads,
                                           std::size_t available);

/// A table for each kind of pages.
[[nodiscard]] std::string unregistered_tables(const std::vector<unregistered_row>& rows);

/// A chart for each kind of pages and number of threads.
[[nodiscard]] std::vector<chart> unregistered_charts(const std::vector<unregistered_row>& rows);

/// The same for programs.
[[nodiscard]] json unregistered_json(const std::vector<unregistered_row>& rows);

} // namespace farcall::tool
