// SPDX-License-Identifier: Apache-2.0
#include "cg.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace cg {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Adds in a long double, so that squares stay in range.
long double norm(std::span<const double> a) {
  return std::sqrt(std::inner_product(a.begin(), a.end(), a.begin(), 0.0L, std::plus<>{},
                                      [](long double x, long double y) { return x * y; }));
}

} // namespace

solution conjugate_gradient(const product& apply, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            const observer& tell) {
  const std::size_t n = b.size();
  solution s{.x = std::vector<double>(n)};
  const auto ends = [&s](outcome how) {
    s.how = how;
    return s;
  };
  double largest = 0;
  for (const double v : b) {
    if (!std::isfinite(v)) return ends(outcome::not_finite);
    largest = std::max(largest, std::abs(v));
  }
  if (largest == 0) return s;
  // Solve for b / scale, so that squares of very small or large numbers stay in range. Division by
  // a power of two is exact.
  const double scale = std::exp2(std::ilogb(largest));
  std::vector<double> r(n), z(n), q(n); // r is b - A x, and x is zero
  for (std::size_t i = 0; i < n; ++i)
    r[i] = b[i] / scale;
  const auto condition = [&] {
    for (std::size_t i = 0; i < n; ++i)
      z[i] = options.precondition == preconditioner::jacobi ? r[i] / diagonal[i] : r[i];
  };
  const double size = std::sqrt(dot(r, r));
  condition();
  std::vector<double> p = z;
  double rz = dot(r, z);
  for (s.residual = 1; s.residual > options.tolerance;) {
    if (s.iterations == options.max_iterations) {
      s.how = outcome::too_many_iterations;
      break;
    }
    apply(p, q);
    ++s.iterations;
    const double curvature = dot(p, q);
    if (!std::isfinite(curvature) || !std::isfinite(rz)) return ends(outcome::not_finite);
    if (curvature <= 0) return ends(outcome::not_positive_definite);
    const double step = rz / curvature;
    for (std::size_t i = 0; i < n; ++i) {
      s.x[i] += step * p[i];
      r[i] -= step * q[i];
    }
    s.residual = std::sqrt(dot(r, r)) / size;
    if (!std::isfinite(s.residual)) return ends(outcome::not_finite);
    if (tell) tell(s.iterations, s.residual);
    condition();
    const double before = std::exchange(rz, dot(r, z));
    for (std::size_t i = 0; i < n; ++i)
      p[i] = z[i] + rz / before * p[i];
  }
  for (double& v : s.x)
    v *= scale;
  return s;
}

double relative_difference(std::span<const double> x, std::span<const double> y) {
  std::vector<double> d(x.size());
  std::ranges::transform(x, y, d.begin(), std::minus<>{});
  const long double size = norm(y);
  return static_cast<double>(size == 0 ? norm(d) : norm(d) / size);
}

double true_residual(const csr_matrix& matrix, std::span<const double> x,
                     std::span<const double> b) {
  std::vector<double> product(b.size());
  multiply(matrix, x, product);
  return relative_difference(product, b);
}

} // namespace cg
