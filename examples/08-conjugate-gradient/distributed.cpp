// SPDX-License-Identifier: Apache-2.0
#include "distributed.hpp"

#include <farcall/gpu/gpu.hpp>

#include <algorithm>
#include <stdexcept>

namespace fc = farcall;

namespace cg {

/// Arguments of a kernel; trivially copyable, so they are sent as they are.
struct kernel_arguments {
  fc::remote_span<const std::uint64_t> row_start;
  fc::remote_span<const std::uint32_t> column;
  fc::remote_span<const double> value;
  fc::remote_span<const double> p;
  fc::remote_span<double> q;
};

/// Runs on a target, on its own memory; returns the nanoseconds of its arithmetic. On a GPU a team
/// of threads shares the rows.
FARCALL_HOST_DEVICE std::uint64_t multiply_block(const kernel_arguments& a) {
  const auto start = fc::device::now();
  const fc::device::team team = fc::device::this_team();
  multiply_rows(a.row_start.local(), a.column.local(), a.value.local(), a.p.local(), a.q.local(),
                team.rank(), team.size());
  team.sync();
  return fc::device::now() - start;
}

template <typename T>
static fc::buffer<T> upload(const fc::node& target, const std::vector<T>& values) {
  auto buffer = target.allocate<T>(values.size());
  fc::put_sync(values, buffer);
  return buffer;
}

distributed_matrix::distributed_matrix(const csr_matrix& matrix,
                                       std::span<const fc::node> targets) {
  if (targets.empty()) throw std::invalid_argument("the job has no target to compute on");
  const auto ranges = balance_rows(matrix, targets.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const row_block rows = extract(matrix, ranges[i]);
    const fc::node& target = targets[i];
    blocks_.push_back({target,
                       ranges[i],
                       rows.first_column,
                       upload(target, rows.row_start),
                       upload(target, rows.column),
                       upload(target, rows.value),
                       target.allocate<double>(rows.columns),
                       target.allocate<double>(ranges[i].size()),
                       {}});
  }
}

void distributed_matrix::multiply(std::span<const double> p, std::span<double> q) {
  const auto start = std::chrono::steady_clock::now();
  for (block& b : blocks_) {
    // Put only the part of p that these rows use; targets served before compute meanwhile.
    fc::put_sync(p.subspan(b.first_column, b.p.size()), b.p);
    b.kernel = fc::async(b.target, fc::team_fn<multiply_block>,
                         kernel_arguments{b.row_start.span(), b.column.span(), b.value.span(),
                                          b.p.span(), b.q.span()});
    ++offloads_;
  }
  std::chrono::nanoseconds slowest{};
  for (block& b : blocks_) {
    slowest = std::max(slowest, std::chrono::nanoseconds{b.kernel.get()});
    fc::get_sync(b.q, q.subspan(b.rows.first, b.rows.size()));
  }
  kernels_ += slowest;
  inside_ += std::chrono::steady_clock::now() - start;
}

std::vector<std::string> distributed_matrix::descriptions() const {
  std::vector<std::string> all;
  for (const block& b : blocks_)
    all.push_back(join(b.target.id(), ' ', b.target.name(), ": ", b.rows.size(), " rows, ",
                       b.value.size(), " nonzeros"));
  return all;
}

} // namespace cg
