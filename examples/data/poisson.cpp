// SPDX-License-Identifier: Apache-2.0
#include "matrix.hpp"
#include "text.hpp"

namespace cg {

csr_matrix poisson(std::uint64_t edge) {
  if (edge < 1 || edge > max_poisson_edge)
    throw std::invalid_argument(
        join("a Poisson grid needs an edge of 1 to ", max_poisson_edge, ", not ", edge));
  const std::uint64_t plane = edge * edge;
  csr_matrix matrix;
  const auto add = [&](std::uint64_t column, double value) {
    matrix.column.push_back(static_cast<std::uint32_t>(column));
    matrix.value.push_back(value);
  };
  matrix.row_start.reserve(plane * edge + 1);
  matrix.column.reserve(7 * plane * edge - 6 * plane);
  matrix.value.reserve(7 * plane * edge - 6 * plane);
  for (std::uint64_t row = 0; row < plane * edge; ++row) {
    for (const std::uint64_t next : {plane, edge, std::uint64_t{1}})
      if (row / next % edge > 0) add(row - next, -1);
    add(row, 6);
    for (const std::uint64_t next : {std::uint64_t{1}, edge, plane})
      if (row / next % edge + 1 < edge) add(row + next, -1);
    matrix.row_start.push_back(matrix.value.size());
  }
  return matrix;
}

double poisson_bytes(std::uint64_t edge) noexcept {
  const auto e = static_cast<double>(edge);
  return e * e * e * (sizeof(std::uint64_t) + 7 * (sizeof(double) + sizeof(std::uint32_t)));
}

} // namespace cg
