// SPDX-License-Identifier: Apache-2.0

/// \file
/// Systems to solve, and the check of their solutions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace batched {

/// Systems of n equations, one after the other, in the layout of solve.hpp. Equal in each run.
struct problem {
  unsigned n;
  std::size_t count;
  std::vector<double> systems;

  problem(unsigned equations, std::size_t how_many)
      : n(equations), count(how_many), systems(how_many * length()) {
    std::mt19937_64 random(n);
    std::uniform_real_distribution<double> number(-1, 1);
    for (double& v : systems)
      v = number(random);
  }

  /// Returns the elements of one system.
  [[nodiscard]] std::size_t length() const { return std::size_t{n} * (n + 1); }
};

/// Returns the largest |b - A x| / (|A| |x| + |b|) of all systems, where |v| is the sum of absolute
/// values; NaN if one is NaN. `solved` is the result of solve.hpp.
inline double largest_residual(const problem& p, const std::vector<double>& solved) {
  double largest = 0;
  for (std::size_t s = 0; s < p.systems.size(); s += p.length()) {
    double difference = 0;
    double size = 0;
    for (std::size_t row = s; row < s + p.length(); row += p.n + 1) {
      const double b = p.systems[row + p.n];
      double left = b;
      size += std::fabs(b);
      for (std::size_t j = 0; j < p.n; ++j) {
        const double term = p.systems[row + j] * solved[s + j * (p.n + 1) + p.n];
        left -= term;
        size += std::fabs(term);
      }
      difference += std::fabs(left);
    }
    const double residual = difference / size;
    if (std::isnan(residual)) return residual;
    largest = std::max(largest, residual);
  }
  return largest;
}

} // namespace batched
