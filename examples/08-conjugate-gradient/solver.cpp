#include "solver.hpp"

#include <cmath>

namespace cg {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

/// The power of two at or below the largest |a[i]|; 0 if all are zero, infinite or NaN if one
/// is. Dividing by it is exact.
double scale_of(std::span<const double> a) {
  double largest = 0;
  for (const double v : a) {
    if (!(std::abs(v) <= largest)) largest = std::abs(v);
    if (!std::isfinite(v)) break;
  }
  return largest == 0 || !std::isfinite(largest) ? largest : std::exp2(std::ilogb(largest));
}

/// Does not overflow or vanish where the result would not.
double norm(std::span<const double> a) {
  const double scale = scale_of(a);
  if (scale == 0 || !std::isfinite(scale)) return scale;
  double sum = 0;
  for (const double v : a)
    sum += (v / scale) * (v / scale);
  return scale * std::sqrt(sum);
}

} // namespace

std::string_view to_string(outcome how) noexcept {
  switch (how) {
  case outcome::converged:
    return "converged";
  case outcome::too_many_iterations:
    return "too many iterations";
  case outcome::not_positive_definite:
    return "not positive definite";
  case outcome::not_finite:
    return "not finite";
  }
  return "unknown";
}

solution conjugate_gradient(const product& apply, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            const observer& tell) {
  const std::size_t n = b.size();
  const bool jacobi = options.precondition == preconditioner::jacobi;
  solution result;
  result.x.assign(n, 0.0);
  const double scale = scale_of(b);
  if (scale == 0) return result;
  if (!std::isfinite(scale)) {
    result.how = outcome::not_finite;
    return result;
  }
  // Solve for b / scale, so that squares of very small or large numbers stay in range.
  std::vector<double> r(b.begin(), b.end()); // b - A x, and x is zero
  for (double& v : r)
    v /= scale;
  std::vector<double> z(n);
  std::vector<double> q(n);
  const auto condition = [&] {
    for (std::size_t i = 0; i < n; ++i)
      z[i] = jacobi ? r[i] / diagonal[i] : r[i];
  };
  const double size = std::sqrt(dot(r, r));

  condition();
  std::vector<double> p = z;
  double rz = dot(r, z);
  result.residual = 1;
  while (result.residual > options.tolerance) {
    if (result.iterations == options.max_iterations) {
      result.how = outcome::too_many_iterations;
      break;
    }
    apply(p, q);
    ++result.iterations;
    const double curvature = dot(p, q);
    if (!std::isfinite(curvature) || !std::isfinite(rz)) {
      result.how = outcome::not_finite;
      return result;
    }
    if (curvature <= 0) {
      result.how = outcome::not_positive_definite;
      return result;
    }
    const double step = rz / curvature;
    for (std::size_t i = 0; i < n; ++i) {
      result.x[i] += step * p[i];
      r[i] -= step * q[i];
    }
    result.residual = std::sqrt(dot(r, r)) / size;
    if (!std::isfinite(result.residual)) {
      result.how = outcome::not_finite;
      return result;
    }
    if (tell) tell(result.iterations, result.residual);
    condition();
    const double next_rz = dot(r, z);
    const double keep = next_rz / rz;
    rz = next_rz;
    for (std::size_t i = 0; i < n; ++i)
      p[i] = z[i] + keep * p[i];
  }
  for (double& v : result.x)
    v *= scale;
  return result;
}

double true_residual(const csr_matrix& matrix, std::span<const double> x,
                     std::span<const double> b) {
  std::vector<double> r(b.size());
  multiply(matrix, x, r);
  for (std::size_t i = 0; i < r.size(); ++i)
    r[i] = b[i] - r[i];
  const double size = norm(b);
  return size == 0 ? norm(r) : norm(r) / size;
}

double relative_difference(std::span<const double> x, std::span<const double> y) {
  std::vector<double> d(x.size());
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = x[i] - y[i];
  const double size = norm(y);
  return size == 0 ? norm(d) : norm(d) / size;
}

} // namespace cg
