// SPDX-License-Identifier: Apache-2.0

/// \file
/// Sparse symmetric positive definite matrices, of a grid and of Matrix Market files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
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

inline constexpr std::uint64_t max_poisson_edge = 1290; ///< its cube fits a 32-bit column

/// Returns the 7-point Laplacian on a grid of edge × edge × edge points with zero boundary. Throws
/// std::invalid_argument unless 1 <= edge <= max_poisson_edge.
csr_matrix poisson(std::uint64_t edge);
/// Returns the bytes of poisson(edge).
double poisson_bytes(std::uint64_t edge) noexcept;

/// Relative difference up to which two entries of a `general` file count as equal.
inline constexpr double symmetry_tolerance = 1e-12;

/// Reads a Matrix Market file: `matrix coordinate`, `real` or `integer`, `symmetric` or `general`
/// if the entries are symmetric all the same. Throws input_error with one line that names the file,
/// the line and the cause.
csr_matrix read_matrix_market(const std::filesystem::path& path);

/// Reads from a stream; `name` stands for the file in messages. Throws input_error. Memory grows
/// with the stream's content, not with the sizes in its header.
csr_matrix parse_matrix_market(std::istream& in, std::string name);

} // namespace cg
