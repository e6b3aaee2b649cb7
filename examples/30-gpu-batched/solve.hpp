/// \file
/// What runs on the device: small dense linear systems, each solved by a team of threads.
#pragma once

#include <farcall/gpu/gpu.hpp>

#include <cmath>
#include <cstddef>

namespace batched {

/// A x = b with A of n × n elements: `system` has n rows, each with its b as the last of n + 1
/// elements; afterwards that is x. Gauss-Jordan elimination with partial pivoting. All threads of
/// the team call it.
FARCALL_HOST_DEVICE inline void eliminate(double* system, unsigned n) {
  const farcall::device::team team = farcall::device::this_team();
  const unsigned first = team.rank();
  const unsigned step = team.size();
  const unsigned width = n + 1;
  for (unsigned k = 0; k < n; ++k) {
    double* const row = system + k * width;
    // Each thread looks for the pivot itself, so that none has to tell the others.
    double* pivot_row = row;
    for (unsigned i = k + 1; i < n; ++i) {
      if (std::fabs(system[i * width + k]) > std::fabs(pivot_row[k]))
        pivot_row = system + i * width;
    }
    const double pivot = pivot_row[k];
    team.sync(); // all have looked: rows may be exchanged
    for (unsigned j = k + first; j < width; j += step) {
      const double kept = pivot_row[j];
      pivot_row[j] = row[j];
      row[j] = kept / pivot;
    }
    team.sync();
    // The columns right of k, of all rows but this one. Column k only gives the factors.
    const unsigned columns = n - k;
    for (unsigned e = first; e < n * columns; e += step) {
      double* const other = system + e / columns * width;
      const unsigned j = k + 1 + e % columns;
      if (other != row) other[j] -= other[k] * row[j];
    }
    team.sync();
  }
}

/// One system.
FARCALL_HOST_DEVICE inline void solve(farcall::remote_span<double> system, unsigned n) {
  eliminate(system.data(), n);
}

/// All of them, launched as a grid: each block takes the next system that is its own.
FARCALL_HOST_DEVICE inline void solve_all(farcall::remote_span<double> systems, unsigned n) {
  const farcall::device::whole_grid grid = farcall::device::this_grid();
  const std::size_t length = std::size_t{n} * (n + 1);
  for (std::size_t at = grid.block() * length; at < systems.size(); at += grid.blocks() * length)
    eliminate(systems.data() + at, n);
}

} // namespace batched
