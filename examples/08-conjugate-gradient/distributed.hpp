/// \file
/// The matrix spread over the targets of a job, row block by row block.
#pragma once

#include "sparse.hpp"

#include <farcall/farcall.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace cg {

/// What the products have cost so far.
struct product_times {
  std::uint64_t offloads = 0;
  /// Host time inside multiply(): from the first put of p until all of q is here.
  std::chrono::nanoseconds inside{};
  /// Sum over products of the slowest kernel, each measured by its target.
  std::chrono::nanoseconds kernels{};
  /// What offloading added: messages, copies of p and q, waiting for a free core.
  [[nodiscard]] std::chrono::nanoseconds overhead() const noexcept { return inside - kernels; }
};

/// Uploads each target's rows once; a product then moves only vectors.
class distributed_matrix {
 public:
  distributed_matrix(const csr_matrix& matrix, std::span<const farcall::node> targets);

  /// q = A p, with exactly one offload per target in use.
  void multiply(std::span<const double> p, std::span<double> q);

  [[nodiscard]] const product_times& times() const noexcept { return times_; }

  /// Targets in use: fewer than given when the matrix has fewer rows.
  [[nodiscard]] std::size_t targets() const noexcept { return blocks_.size(); }
  [[nodiscard]] const farcall::node& target(std::size_t i) const { return blocks_[i].target; }
  [[nodiscard]] row_range rows(std::size_t i) const { return blocks_[i].rows; }
  [[nodiscard]] std::size_t nonzeros(std::size_t i) const { return blocks_[i].value.size(); }

 private:
  struct block {
    farcall::node target;
    row_range rows;
    std::size_t first_column;
    farcall::buffer<std::uint64_t> row_start;
    farcall::buffer<std::uint32_t> column;
    farcall::buffer<double> value;
    farcall::buffer<double> p;
    farcall::buffer<double> q;
    farcall::future<std::uint64_t> kernel;
  };

  std::vector<block> blocks_;
  product_times times_;
};

} // namespace cg
