// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/runner/options.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

struct scale_options : bench_options {
  std::size_t max_targets = 0;       ///< 0 for the default
  std::size_t max_threads = 0;       ///< 0 for the default
  std::string nodes;                 ///< sizes of jobs (over TCP one); or the default
  std::string launcher = "children"; ///< starter of targets: the host ("children"), or "mpirun"
  std::string grow;                  ///< number that grows instead: "nodes", "threads", …
  std::size_t most = 0;              ///< its largest value; 0 for the default
  std::optional<std::size_t> starts; ///< starts of each size, measuring nothing else
  std::optional<std::size_t> contact_seconds; ///< limit for each part of first contact
};

/// Measures one job with many targets behind a server.
int run_scale_over_connection(const scale_options& options);

/// Returns the CPU time of these processes in nanoseconds.
[[nodiscard]] double processor_time_of_all(const std::vector<int>& pids);

} // namespace farcall::tool
