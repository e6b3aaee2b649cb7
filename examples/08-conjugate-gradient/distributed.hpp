// SPDX-License-Identifier: Apache-2.0

/// \file
/// The matrix spread over the targets of a job, row block by row block.
#pragma once

#include "cg.hpp"

#include <farcall/farcall.hpp>

#include <chrono>

namespace cg {

/// Uploads each target's rows once; a product then moves only vectors.
class distributed_matrix {
 public:
  distributed_matrix(const csr_matrix& matrix, std::span<const farcall::node> targets);

  /// Computes q = A p, with exactly one offload per target in use.
  void multiply(std::span<const double> p, std::span<double> q);

  [[nodiscard]] std::uint64_t offloads() const noexcept { return offloads_; }
  /// Returns the time added by offloading: messages, copies of p and q, waiting for a free core.
  [[nodiscard]] std::chrono::duration<double> overhead() const noexcept {
    return inside_ - kernels_;
  }
  /// Describes each target in use: fewer than given if the matrix has fewer rows.
  [[nodiscard]] std::vector<std::string> descriptions() const;

 private:
  struct block {
    farcall::node target;
    row_range rows;
    std::size_t first_column;
    farcall::buffer<std::uint64_t> row_start;
    farcall::buffer<std::uint32_t> column;
    farcall::buffer<double> value, p, q;
    farcall::future<std::uint64_t> kernel;
  };

  std::vector<block> blocks_;
  std::uint64_t offloads_ = 0;
  std::chrono::nanoseconds
      inside_{}; ///< multiply(), from the first put of p until all of q is here
  std::chrono::nanoseconds kernels_{}; ///< sum of each product's slowest kernel
};

} // namespace cg
