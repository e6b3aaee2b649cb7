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
#include <string>
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
  std::uint64_t checkpoint_interval = 100; ///< iterations between two checkpoints of targets
};

struct solution {
  std::vector<double> x;
  outcome how = outcome::converged;
  std::uint64_t iterations = 0; ///< equals the number of products: x starts at zero
  double residual = 0;          ///< of the recurrence, relative to |b|
};

using product = std::function<void(std::span<const double> p, std::span<double> q)>; ///< q = A p
using observer = std::function<void(std::uint64_t iteration, double residual)>;

/// How one of several members works on its rows of a system. Each member has the entries of its own
/// rows of all vectors, and of p also copies of the entries that its rows use.
struct member {
  std::size_t before = 0; ///< number of entries of p before the first own one
  std::size_t after = 0;  ///< number of entries of p behind the last own one
  /// Brings the entries of other members into p, and computes q = A p.
  std::function<void(std::span<double> p, std::span<double> q)> apply = {};
  /// Replaces the values by their sums over all members, added in the members' order.
  std::function<void(std::span<double>)> add = [](std::span<double>) {};
  /// Returns the largest of the members' numbers.
  std::function<double(double)> largest = [](double own) { return own; };
};

/// Numbers of a solver between two iterations. All members have the same.
struct solver_numbers {
  double rz = 0;
  double size = 0;  ///< of r at the start
  double scale = 0; ///< of b, by which the system was divided; 0 before the start
  std::uint64_t iterations = 0;
  double residual = 1;
};
/// Numbers and vectors of a member between two iterations, from which a solver can go on.
struct solver_state : solver_numbers {
  std::vector<double> x, r, p;
};

/// Called between two iterations.
using between = std::function<void(const solver_state&)>;

/// Solves A x = b, or goes on from `state`, together with the other members. The order of all sums
/// is fixed: equal products give equal bits. Returns the own entries of x.
solution conjugate_gradient(const member& m, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            solver_state& state, const between& tell = {});
/// Solves A x = b alone.
solution conjugate_gradient(const product& apply, std::span<const double> b,
                            std::span<const double> diagonal, const solver_options& options,
                            const observer& tell = {});

/// Rows of a system on one of several members.
struct system_part {
  row_block rows;
  std::vector<double> b, diagonal; ///< own entries
};
/// Cuts a system into parts, at most as many as there are rows.
std::vector<system_part> split(const csr_matrix& matrix, std::span<const double> b,
                               std::size_t parts);
/// Returns the columns that the part `to` uses and the part `of` owns; empty if there are none.
row_range shared_columns(const system_part& to, const system_part& of);

/// True if the compiler has OpenMP.
bool has_threads() noexcept;
/// Solves A x = b by threads of OpenMP, each of which works on a part like a target does. Stores
/// the time without the time for cutting the system into parts in `seconds`.
solution solve_by_threads(const csr_matrix& matrix, std::span<const double> b,
                          const solver_options& options, std::size_t threads, double& seconds);

/// Returns |b - A x| / |b|, computed from scratch; |A x| if b is zero.
double true_residual(const csr_matrix& matrix, std::span<const double> x,
                     std::span<const double> b);
/// Returns |x - y| / |y|; |x| if y is zero.
double relative_difference(std::span<const double> x, std::span<const double> y);

/// Returns the reason why several targets were not faster than one thread; empty if they were
/// faster, or if there is only one. The times are in seconds.
std::string missing_gain(std::size_t targets, double target_time, double thread_time,
                         std::uint64_t iterations);

} // namespace cg
