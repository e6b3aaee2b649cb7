#pragma once

#include <bench/runner/options.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

struct scale_options : bench_options {
  std::size_t most_targets = 0;      ///< 0: as many as is usual
  std::size_t most_threads = 0;      ///< likewise
  std::string nodes;                 ///< of jobs: sizes; of the one over TCP: one; empty: the usual
  std::string launcher = "children"; ///< what starts targets: the host, or "mpirun"
  std::optional<std::size_t> starts; ///< of each size, without measuring more
  std::optional<std::size_t> contact_seconds; ///< at most, for each part of first contact
};

/// One job with many targets behind a server.
int run_scale_over_connection(const scale_options& options);

/// Nanoseconds that these processes have used.
[[nodiscard]] double processor_time_of_all(const std::vector<int>& pids);

} // namespace farcall::tool
