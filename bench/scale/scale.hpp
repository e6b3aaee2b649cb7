#pragma once

#include <bench/runner/options.hpp>

#include <cstddef>
#include <vector>

namespace farcall::tool {

struct scale_options : bench_options {
  std::size_t most_targets = 0; ///< 0: as many as is usual
  std::size_t most_threads = 0; ///< likewise
  std::size_t nodes = 64;       ///< of the job over TCP
};

/// One job with many targets behind a server.
int run_scale_over_connection(const scale_options& options);

/// Nanoseconds that these processes have used.
[[nodiscard]] double processor_time_of_all(const std::vector<int>& pids);

} // namespace farcall::tool
