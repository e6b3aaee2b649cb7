// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

/// Reductions that `farcall bench collectives` measures, and their timing, which is the same for
/// farcall and MPI.
namespace farcall::tool {

enum class combines { all_reduce, reduce, scan };

struct collective_case {
  combines how;
  const char* key;  ///< name in JSON
  const char* what; ///< name for people
  std::size_t bytes;
  int calls; ///< of a batch
};

inline constexpr std::array collective_cases{
    collective_case{combines::all_reduce, "all_reduce_8", "all_reduce of 8 B", 8, 500},
    collective_case{combines::reduce, "reduce_8", "reduce of 8 B", 8, 500},
    collective_case{combines::scan, "scan_8", "scan of 8 B", 8, 500},
    collective_case{combines::all_reduce, "all_reduce_1m", "all_reduce of 1 MiB", 1 << 20, 10},
    collective_case{combines::reduce, "reduce_1m", "reduce of 1 MiB", 1 << 20, 10},
    collective_case{combines::scan, "scan_1m", "scan of 1 MiB", 1 << 20, 10}};

/// Number of processes.
inline constexpr int collective_nodes = 4;

/// Prints the times of all cases on the first process, a line for each batch: nanoseconds of a call
/// and a barrier. `run(case, values)` makes one call. `wait()` is a barrier of all processes, after
/// which all of them have their results.
template <class Run, class Wait>
void measure_collectives(bool is_first, int batches, const Run& run, const Wait& wait) {
  using clock = std::chrono::steady_clock;
  constexpr int warm_up = 2;
  for (const collective_case& c : collective_cases) {
    std::vector<double> values(c.bytes / sizeof(double), 0.5);
    for (int batch = -warm_up; batch < batches; ++batch) {
      wait();
      const auto start = clock::now();
      for (int i = 0; i < c.calls; ++i) {
        run(c, std::span(values));
        wait();
      }
      const std::chrono::duration<double, std::nano> took = clock::now() - start;
      // Sums must not overflow.
      values.assign(values.size(), 0.5);
      if (is_first && batch >= 0) std::printf("%.3f\n", took.count() / c.calls);
    }
  }
}

} // namespace farcall::tool
