// SPDX-License-Identifier: Apache-2.0
#include "cg.hpp"

#include <algorithm>
#include <cstddef>

namespace cg {

void multiply(const csr_matrix& matrix, std::span<const double> p, std::span<double> q) {
  multiply_rows(matrix.row_start, matrix.column, matrix.value, p, q);
}

std::vector<double> diagonal(const csr_matrix& matrix) {
  std::vector<double> result(matrix.rows());
  for (std::size_t row = 0; row < matrix.rows(); ++row)
    for (std::uint64_t k = matrix.row_start[row]; k < matrix.row_start[row + 1]; ++k)
      if (matrix.column[k] == row) result[row] = matrix.value[k];
  return result;
}

std::vector<row_range> balance_rows(const csr_matrix& matrix, std::size_t parts) {
  std::vector<row_range> ranges;
  std::size_t first = 0;
  for (std::size_t left = std::min(parts, matrix.rows()); left > 0; --left) {
    // Aim at an equal share of what is left, so that one very heavy row does not starve the rest.
    const auto& start = matrix.row_start;
    const std::uint64_t goal = start[first] + (matrix.nonzeros() - start[first]) / left;
    std::size_t last = first + 1;
    // Stop before a row that would overshoot by more than what is missing now.
    while (last < matrix.rows() - (left - 1) && start[last] < goal &&
           (start[last + 1] <= goal || start[last + 1] - goal <= goal - start[last]))
      ++last;
    if (left == 1) last = matrix.rows();
    ranges.push_back({.first = first, .last = last});
    first = last;
  }
  return ranges;
}

row_block extract(const csr_matrix& matrix, row_range rows) {
  const auto begin = static_cast<std::ptrdiff_t>(matrix.row_start[rows.first]);
  const auto end = static_cast<std::ptrdiff_t>(matrix.row_start[rows.last]);
  row_block block;
  block.range = rows;
  block.value.assign(matrix.value.begin() + begin, matrix.value.begin() + end);
  block.column.assign(matrix.column.begin() + begin, matrix.column.begin() + end);
  if (!block.column.empty()) {
    const auto [low, high] = std::ranges::minmax(block.column);
    block.first_column = low;
    block.columns = high - low + std::size_t{1};
    for (std::uint32_t& column : block.column)
      column -= low;
  }
  for (std::size_t row = rows.first; row < rows.last; ++row)
    block.row_start.push_back(matrix.row_start[row + 1] - matrix.row_start[rows.first]);
  return block;
}

std::vector<system_part> split(const csr_matrix& matrix, std::span<const double> b,
                               std::size_t parts) {
  const std::vector<double> all = diagonal(matrix);
  std::vector<system_part> result;
  for (const row_range rows : balance_rows(matrix, parts)) {
    const auto own = [&](std::span<const double> of) {
      const auto part = of.subspan(rows.first, rows.size());
      return std::vector<double>(part.begin(), part.end());
    };
    result.push_back({extract(matrix, rows), own(b), own(all)});
  }
  return result;
}

row_range shared_columns(const system_part& to, const system_part& of) {
  const std::size_t first = std::max(to.rows.first_column, of.rows.range.first);
  const std::size_t last = std::min(to.rows.first_column + to.rows.columns, of.rows.range.last);
  return {first, std::max(first, last)};
}

} // namespace cg
