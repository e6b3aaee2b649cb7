// SPDX-License-Identifier: Apache-2.0

/// \file
/// Sparse symmetric matrices in compressed rows, and conjugate gradients for them, without farcall.
#pragma once

#include <examples/data/matrix.hpp>
#include <examples/data/text.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cg {

/// A range of rows, [first, last).
struct row_range {
  std::size_t first = 0;
  std::size_t last = 0;
  [[nodiscard]] std::size_t size() const noexcept { return last - first; }
  friend bool operator==(const row_range&, const row_range&) = default;
};

/// Rows as a separate matrix, which uses only `columns` columns from `first_column` on.
struct row_block : csr_matrix {
  row_range range;
  std::size_t first_column = 0;
  std::size_t columns = 0;
};

/// Computes q = A p for every step-th row from `first` on; runs on the host, on targets and on
/// GPUs.
constexpr void multiply_rows(std::span<const std::uint64_t> row_start,
                             std::span<const std::uint32_t> column, std::span<const double> value,
                             std::span<const double> p, std::span<double> q, std::size_t first = 0,
                             std::size_t step = 1) {
  for (std::size_t row = first; row < q.size(); row += step) {
    double sum = 0;
    for (std::uint64_t k = row_start[row]; k < row_start[row + 1]; ++k)
      sum += value[k] * p[column[k]];
    q[row] = sum;
  }
}
void multiply(const csr_matrix& matrix, std::span<const double> p, std::span<double> q);

/// Returns the entries (i, i); 0 for missing ones.
std::vector<double> diagonal(const csr_matrix& matrix);
/// Cuts the rows into at most `parts` ranges of one row or more, with about equally many nonzeros.
std::vector<row_range> balance_rows(const csr_matrix& matrix, std::size_t parts);
row_block extract(const csr_matrix& matrix, row_range rows);

enum class preconditioner { none, jacobi };
enum class outcome { converged, too_many_iterations, not_positive_definite, not_finite };

struct solver_options {
  double tolerance = 1e-10; ///< of the recurrence's residual, relative to |b|
  std::uint64_t max_iterations = 1000;
  preconditioner precondition = preconditioner::jacobi;
};

struct solution {
  std::vector<double> x;
  outcome how = outcome::converged;
  std::uint64_t iterations = 0; ///< equals the number of products: x starts at zero
  double residual = 0;          ///< of the recurrence, relative to |b|
};

using product = std::function<void(std::span<const double> p, std::span<double> q)>; ///< q = A p
using observer = std::function<void(std::uint64_t iteration, double residual)>;

/// Solves A x = b. The order of all sums is fixed: equal products give equal bits.
solution conjugate_gradient(const product& apply, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            const observer& tell = {});
/// Returns |b - A x| / |b|, computed from scratch; |A x| if b is zero.
double true_residual(const csr_matrix& matrix, std::span<const double> x,
                     std::span<const double> b);
/// Returns |x - y| / |y|; |x| if y is zero.
double relative_difference(std::span<const double> x, std::span<const double> y);

} // namespace cg
