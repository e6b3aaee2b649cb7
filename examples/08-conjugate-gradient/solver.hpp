/// \file
/// Preconditioned conjugate gradients; who computes the matrix-vector product is a parameter.
#pragma once

#include "sparse.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace cg {

enum class preconditioner { none, jacobi };

struct solver_options {
  /// Stop when the residual that the recurrence carries, over |b|, is no larger than this.
  double tolerance = 1e-10;
  std::uint64_t max_iterations = 1000;
  preconditioner precondition = preconditioner::jacobi;
};

enum class outcome {
  converged,
  too_many_iterations,
  not_positive_definite, ///< some p had p·Ap <= 0
  not_finite,            ///< a number left the range of a double
};

std::string_view to_string(outcome how) noexcept;

struct solution {
  std::vector<double> x;
  outcome how = outcome::converged;
  std::uint64_t iterations = 0; ///< equals the number of products: x starts at zero
  double residual = 0;          ///< of the recurrence, relative to |b|
};

/// Computes q = A p; called once per iteration.
using product = std::function<void(std::span<const double> p, std::span<double> q)>;

/// Told after every iteration.
using observer = std::function<void(std::uint64_t iteration, double residual)>;

/// Solves A x = b. `diagonal` is A's and only read by the Jacobi preconditioner.
/// The order of all sums is fixed: equal products give equal bits.
solution conjugate_gradient(const product& apply, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            const observer& tell = {});

/// |b - A x| / |b|, from scratch; |A x| when b is zero.
double true_residual(const csr_matrix& matrix, std::span<const double> x,
                     std::span<const double> b);

/// |x - y| / |y|; |x| when y is zero.
double relative_difference(std::span<const double> x, std::span<const double> y);

} // namespace cg
