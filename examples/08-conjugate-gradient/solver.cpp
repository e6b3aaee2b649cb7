// SPDX-License-Identifier: Apache-2.0
#include "cg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

namespace cg {
namespace {

/// Adds in a long double, so that squares stay in range.
long double norm(std::span<const double> a) {
  return std::sqrt(std::inner_product(a.begin(), a.end(), a.begin(), 0.0L, std::plus<>{},
                                      [](long double x, long double y) { return x * y; }));
}

/// Calls f(i) for i = 0 … n - 1, which returns N numbers, and returns their sums over all members.
/// Four sums of each number let the processor add them at the same time.
template <std::size_t N>
std::array<double, N> sum_over(const member& m, std::size_t n, const auto& f) {
  constexpr std::size_t ways = 4;
  std::array<std::array<double, N>, ways> sums{};
  std::size_t i = 0;
  for (; i + ways <= n; i += ways) {
    for (std::size_t w = 0; w < ways; ++w) {
      const std::array<double, N> values = f(i + w);
      for (std::size_t k = 0; k < N; ++k)
        sums[w][k] += values[k];
    }
  }
  for (; i < n; ++i) {
    const std::array<double, N> values = f(i);
    for (std::size_t k = 0; k < N; ++k)
      sums[0][k] += values[k];
  }
  std::array<double, N> all{};
  for (std::size_t k = 0; k < N; ++k)
    all[k] = (sums[0][k] + sums[1][k]) + (sums[2][k] + sums[3][k]);
  m.add(all);
  return all;
}

} // namespace

solution conjugate_gradient(const member& m, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            solver_state& state, const between& tell) {
  const std::size_t n = b.size();
  outcome how = outcome::converged;
  const auto result = [&] {
    solution s{std::vector<double>(n), how, state.iterations, state.residual};
    for (std::size_t i = 0; i < n && !state.x.empty(); ++i)
      s.x[i] = state.x[i] * state.scale;
    return s;
  };
  std::vector<double> inverse(n, 1.0);
  if (options.precondition == preconditioner::jacobi)
    std::ranges::transform(diagonal, inverse.begin(), [](double d) { return 1 / d; });
  if (state.scale == 0) {
    double largest = 0;
    bool is_finite = true;
    for (const double v : b) {
      is_finite = is_finite && std::isfinite(v);
      largest = std::max(largest, std::abs(v));
    }
    // A number that is not finite counts as the largest.
    if (!is_finite) largest = std::numeric_limits<double>::infinity();
    largest = m.largest(largest);
    if (!std::isfinite(largest)) return how = outcome::not_finite, result();
    state.residual = 0;
    if (largest == 0) return result();
    // Solve for b / scale, so that squares of very small or large numbers stay in range. Division
    // by a power of two is exact.
    state.scale = std::exp2(std::ilogb(largest));
    state.x.assign(n, 0.0);
    state.r.resize(n); // r is b - A x, and x is zero
    state.p.assign(m.before + n + m.after, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      state.r[i] = b[i] / state.scale;
      state.p[m.before + i] = state.r[i] * inverse[i];
    }
    const auto [rr, rz] = sum_over<2>(m, n, [&](std::size_t i) {
      const double r = state.r[i];
      return std::array{r * r, r * inverse[i] * r};
    });
    state.size = std::sqrt(rr);
    state.rz = rz;
    state.residual = 1;
  }
  std::vector<double> product(n);
  // The loops see plain pointers, which no call can change.
  double* const x = state.x.data();
  double* const r = state.r.data();
  double* const p = state.p.data() + m.before;
  const double* const q = product.data();
  const double* const d = inverse.data();
  while (state.residual > options.tolerance) {
    if (state.iterations == options.max_iterations)
      return how = outcome::too_many_iterations, result();
    m.apply(state.p, product);
    ++state.iterations;
    const auto [curvature] =
        sum_over<1>(m, n, [&](std::size_t i) { return std::array{p[i] * q[i]}; });
    if (!std::isfinite(curvature) || !std::isfinite(state.rz))
      return how = outcome::not_finite, result();
    if (curvature <= 0) return how = outcome::not_positive_definite, result();
    const double step = state.rz / curvature;
    const auto [rr, rz] = sum_over<2>(m, n, [&](std::size_t i) {
      x[i] += step * p[i];
      r[i] -= step * q[i];
      return std::array{r[i] * r[i], r[i] * d[i] * r[i]};
    });
    state.residual = std::sqrt(rr) / state.size;
    if (!std::isfinite(state.residual)) return how = outcome::not_finite, result();
    const double ratio = rz / std::exchange(state.rz, rz);
    for (std::size_t i = 0; i < n; ++i)
      p[i] = r[i] * d[i] + ratio * p[i];
    if (tell) tell(state);
  }
  return result();
}

solution conjugate_gradient(const product& apply, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            const observer& tell) {
  solver_state state;
  return conjugate_gradient(member{.apply = apply}, b, diagonal, options, state,
                            [&](const solver_state& now) {
                              if (tell) tell(now.iterations, now.residual);
                            });
}

double relative_difference(std::span<const double> x, std::span<const double> y) {
  std::vector<double> d(x.size());
  std::ranges::transform(x, y, d.begin(), std::minus<>{});
  const long double size = norm(y);
  return static_cast<double>(size == 0 ? norm(d) : norm(d) / size);
}

std::string missing_gain(std::size_t targets, double target_time, double thread_time,
                         std::uint64_t iterations) {
  if (targets < 2 || target_time < thread_time) return {};
  // Targets exchange values three times in an iteration, which takes some µs each time.
  constexpr double short_iteration_us = 100;
  const double iteration_us =
      1e6 * thread_time / static_cast<double>(std::max<std::uint64_t>(iterations, 1));
  if (iteration_us >= short_iteration_us)
    return "targets gained nothing: their processors were busy with other programs, or one thread "
           "takes all of the memory's bandwidth";
  char time[32];
  std::snprintf(time, sizeof time, "%.1f us", iteration_us);
  return join("this matrix is too small to gain by targets: an iteration takes one thread ", time);
}

double true_residual(const csr_matrix& matrix, std::span<const double> x,
                     std::span<const double> b) {
  std::vector<double> product(b.size());
  multiply(matrix, x, product);
  return relative_difference(product, b);
}

} // namespace cg
