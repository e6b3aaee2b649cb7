// SPDX-License-Identifier: Apache-2.0

/// \file
/// Code for the device: small dense linear systems, each solved by a team of threads.
#pragma once

#include <farcall/gpu/gpu.hpp>

#include <cmath>
#include <cstddef>

namespace batched {

/// Solves A x = b with A of n × n elements: `system` has n rows of n + 1 elements, the last of
/// which is the row's b, and afterwards x. Gauss-Jordan elimination with partial pivoting. All
/// threads of the team call it.
FARCALL_HOST_DEVICE inline void eliminate(double* system, unsigned n) {
  const farcall::device::team team = farcall::device::this_team();
  const unsigned first = team.rank();
  const unsigned step = team.size();
  const unsigned width = n + 1;
  for (unsigned k = 0; k < n; ++k) {
    double* const row = system + k * width;
    // Each thread searches for the pivot itself, so that no exchange is needed.
    double* pivot_row = row;
    for (unsigned i = k + 1; i < n; ++i) {
      if (std::fabs(system[i * width + k]) > std::fabs(pivot_row[k]))
        pivot_row = system + i * width;
    }
    const double pivot = pivot_row[k];
    team.sync(); // all searches are done, so rows may be exchanged
    for (unsigned j = k + first; j < width; j += step) {
      const double kept = pivot_row[j];
      pivot_row[j] = row[j];
      row[j] = kept / pivot;
    }
    team.sync();
    // The columns right of k, in all other rows. Column k only gives the factors.
    const unsigned columns = n - k;
    for (unsigned e = first; e < n * columns; e += step) {
      double* const other = system + e / columns * width;
      const unsigned j = k + 1 + e % columns;
      if (other != row) other[j] -= other[k] * row[j];
    }
    team.sync();
  }
}

/// Solves one system.
FARCALL_HOST_DEVICE inline void solve(farcall::remote_span<double> system, unsigned n) {
  eliminate(system.data(), n);
}

/// Solves all systems, launched as a grid: each block takes every n-th system, for n blocks.
FARCALL_HOST_DEVICE inline void solve_all(farcall::remote_span<double> systems, unsigned n) {
  const farcall::device::whole_grid grid = farcall::device::this_grid();
  const std::size_t length = std::size_t{n} * (n + 1);
  for (std::size_t at = grid.block() * length; at < systems.size(); at += grid.blocks() * length)
    eliminate(systems.data() + at, n);
}

} // namespace batched
