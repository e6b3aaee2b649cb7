// SPDX-License-Identifier: Apache-2.0

/// \file
/// The table that the example prints.
#pragma once

#include "problem.hpp"

#include <farcall/farcall.hpp>

#include <chrono>
#include <cstdio>

namespace batched {

inline void print_head() {
  std::printf("%-8s%-32s%12s%12s   %s\n", "size", "way", "us per task", "tasks/s", "residual");
}

/// Prints a line with the time of one way. Returns false if `solved` is wrong.
inline bool print_row(const problem& p, const char* way,
                      std::chrono::duration<double, std::micro> took,
                      const std::vector<double>& solved) {
  const double residual = largest_residual(p, solved);
  const double each = took.count() / static_cast<double>(p.count);
  std::printf("%2ux%-5u%-32s%12.2f%12.0f   %.1e\n", p.n, p.n, way, each, 1e6 / each, residual);
  return residual < 1e-12;
}

/// Measures solve(count), which solves the first `count` systems in `there`.
template <class Solve>
bool measure(const problem& p, const farcall::buffer<double>& there, const char* way,
             Solve&& solve) {
  solve(std::min<std::size_t>(p.count, 16)); // starts workers and loads code before the measurement
  farcall::put_sync(p.systems, there);
  const auto start = std::chrono::steady_clock::now();
  solve(p.count);
  const auto end = std::chrono::steady_clock::now();
  std::vector<double> solved(p.systems.size());
  farcall::get_sync(there, solved);
  return print_row(p, way, end - start, solved);
}

} // namespace batched
