#include "sparse.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace cg {

csr_matrix poisson(std::uint64_t edge) {
  if (edge < 1 || edge > max_poisson_edge) {
    throw std::invalid_argument("a Poisson grid needs an edge of 1 to " +
                                std::to_string(max_poisson_edge) + ", not " + std::to_string(edge));
  }
  const std::uint64_t plane = edge * edge;
  const std::uint64_t rows = plane * edge;
  csr_matrix matrix;
  matrix.row_start.reserve(rows + 1);
  matrix.column.reserve(7 * rows - 6 * plane);
  matrix.value.reserve(7 * rows - 6 * plane);

  const auto add = [&](std::uint64_t column, double value) {
    matrix.column.push_back(static_cast<std::uint32_t>(column));
    matrix.value.push_back(value);
  };
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t x = row % edge;
    const std::uint64_t y = row / edge % edge;
    const std::uint64_t z = row / plane;
    if (z > 0) add(row - plane, -1);
    if (y > 0) add(row - edge, -1);
    if (x > 0) add(row - 1, -1);
    add(row, 6);
    if (x + 1 < edge) add(row + 1, -1);
    if (y + 1 < edge) add(row + edge, -1);
    if (z + 1 < edge) add(row + plane, -1);
    matrix.row_start.push_back(matrix.value.size());
  }
  return matrix;
}

double poisson_bytes(std::uint64_t edge) noexcept {
  const auto rows =
      static_cast<double>(edge) * static_cast<double>(edge) * static_cast<double>(edge);
  return rows * (sizeof(std::uint64_t) + 7 * (sizeof(double) + sizeof(std::uint32_t)));
}

void multiply(const csr_matrix& matrix, std::span<const double> p, std::span<double> q) {
  multiply_rows(matrix.row_start, matrix.column, matrix.value, p, q);
}

std::vector<double> diagonal(const csr_matrix& matrix) {
  std::vector<double> result(matrix.rows(), 0.0);
  for (std::size_t row = 0; row < matrix.rows(); ++row) {
    for (std::uint64_t k = matrix.row_start[row]; k < matrix.row_start[row + 1]; ++k) {
      if (matrix.column[k] == row) result[row] = matrix.value[k];
    }
  }
  return result;
}

std::vector<row_range> balance_rows(const csr_matrix& matrix, std::size_t parts) {
  const std::size_t rows = matrix.rows();
  parts = std::min(parts, rows);
  std::vector<row_range> ranges;
  ranges.reserve(parts);
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    // Aim at an equal share of what is left, so that one very heavy row does not starve the rest.
    const std::size_t left = parts - part;
    const std::uint64_t begin = matrix.row_start[first];
    const std::uint64_t goal = begin + (matrix.nonzeros() - begin) / left;
    const std::size_t latest = rows - (left - 1);
    std::size_t last = first + 1;
    while (last < latest && matrix.row_start[last] < goal) {
      // Stop before a row that would overshoot by more than what is missing now.
      const std::uint64_t missing = goal - matrix.row_start[last];
      const std::uint64_t after = matrix.row_start[last + 1];
      if (after > goal && after - goal > missing) break;
      ++last;
    }
    if (left == 1) last = rows;
    ranges.push_back({.first = first, .last = last});
    first = last;
  }
  return ranges;
}

row_block extract(const csr_matrix& matrix, row_range rows) {
  const auto begin = static_cast<std::ptrdiff_t>(matrix.row_start[rows.first]);
  const auto end = static_cast<std::ptrdiff_t>(matrix.row_start[rows.last]);
  row_block block;
  block.rows = rows;
  block.value.assign(matrix.value.begin() + begin, matrix.value.begin() + end);
  block.column.assign(matrix.column.begin() + begin, matrix.column.begin() + end);
  if (!block.column.empty()) {
    const auto [low, high] = std::ranges::minmax(block.column);
    block.first_column = low;
    block.columns = high - low + std::size_t{1};
    for (std::uint32_t& column : block.column)
      column -= low;
  }
  block.row_start.reserve(rows.size() + 1);
  for (std::size_t row = rows.first; row <= rows.last; ++row) {
    block.row_start.push_back(matrix.row_start[row] - matrix.row_start[rows.first]);
  }
  return block;
}

} // namespace cg
