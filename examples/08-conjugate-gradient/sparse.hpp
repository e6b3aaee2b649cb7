/// \file
/// Sparse symmetric matrices in compressed rows, and what the solver does with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cg {

/// A square matrix in compressed rows: the entries of row i are at positions
/// row_start[i] … row_start[i + 1] - 1 of `column` and `value`, sorted by column.
struct csr_matrix {
  std::vector<std::uint64_t> row_start{0};
  std::vector<std::uint32_t> column;
  std::vector<double> value;

  [[nodiscard]] std::size_t rows() const noexcept { return row_start.size() - 1; }
  [[nodiscard]] std::size_t nonzeros() const noexcept { return value.size(); }
};

/// A range of rows, [first, last).
struct row_range {
  std::size_t first = 0;
  std::size_t last = 0;

  [[nodiscard]] std::size_t size() const noexcept { return last - first; }
  friend bool operator==(const row_range&, const row_range&) = default;
};

/// Some consecutive rows as a matrix of their own. Columns count from `first_column`, and only
/// `columns` of them are used, so whoever multiplies needs no more of the vector than that.
struct row_block {
  row_range rows;
  std::size_t first_column = 0;
  std::size_t columns = 0;
  std::vector<std::uint64_t> row_start;
  std::vector<std::uint32_t> column;
  std::vector<double> value;
};

/// Largest edge that poisson() accepts; its cube still fits a 32 bit column.
inline constexpr std::uint64_t max_poisson_edge = 1290;

/// The 7-point Laplacian on a grid of edge × edge × edge points with zero boundary.
/// Throws std::invalid_argument unless 1 <= edge <= max_poisson_edge.
csr_matrix poisson(std::uint64_t edge);

/// Bytes that poisson(edge) occupies, to ask before building it.
double poisson_bytes(std::uint64_t edge) noexcept;

/// q = A p for the rows described by row_start, or for every step-th of them from `first` on; the
/// same code runs on the host and on targets. Being constexpr, it may be compiled for GPUs.
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

/// q = A p for the whole matrix.
void multiply(const csr_matrix& matrix, std::span<const double> p, std::span<double> q);

/// Entries (i, i); 0 where the matrix has none.
std::vector<double> diagonal(const csr_matrix& matrix);

/// Cuts the rows into `parts` consecutive ranges with about equally many nonzeros.
/// Every range has a row; with fewer rows than parts there are as many ranges as rows.
std::vector<row_range> balance_rows(const csr_matrix& matrix, std::size_t parts);

/// Copies some rows out of a matrix.
row_block extract(const csr_matrix& matrix, row_range rows);

} // namespace cg
