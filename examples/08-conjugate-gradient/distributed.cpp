#include "distributed.hpp"

#include <farcall/gpu/gpu.hpp>

#include <algorithm>
#include <stdexcept>

namespace fc = farcall;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

namespace cg {

/// What a kernel needs to know; trivially copyable, so it travels as it is.
struct kernel_arguments {
  fc::remote_span<const std::uint64_t> row_start;
  fc::remote_span<const std::uint32_t> column;
  fc::remote_span<const double> value;
  fc::remote_span<const double> p;
  fc::remote_span<double> q;
};

/// Runs on a target, on its own memory; returns how many nanoseconds the arithmetic took there. On
/// a GPU by a team of threads, which share the rows.
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
    blocks_.push_back({.target = targets[i],
                       .rows = rows.rows,
                       .first_column = rows.first_column,
                       .row_start = upload(targets[i], rows.row_start),
                       .column = upload(targets[i], rows.column),
                       .value = upload(targets[i], rows.value),
                       .p = targets[i].allocate<double>(rows.columns),
                       .q = targets[i].allocate<double>(rows.rows.size()),
                       .kernel = {}});
  }
}

void distributed_matrix::multiply(std::span<const double> p, std::span<double> q) {
  const auto start = steady_clock::now();
  for (block& b : blocks_) {
    // Only the part of p that these rows touch; the targets served first compute meanwhile.
    fc::put_sync(p.subspan(b.first_column, b.p.size()), b.p);
    b.kernel = fc::async(b.target, fc::team_fn<multiply_block>,
                         kernel_arguments{.row_start = b.row_start.span(),
                                          .column = b.column.span(),
                                          .value = b.value.span(),
                                          .p = b.p.span(),
                                          .q = b.q.span()});
    ++times_.offloads;
  }
  nanoseconds slowest{};
  for (block& b : blocks_) {
    slowest = std::max(slowest, nanoseconds{b.kernel.get()});
    fc::get_sync(b.q, q.subspan(b.rows.first, b.rows.size()));
  }
  times_.kernels += slowest;
  times_.inside += steady_clock::now() - start;
}

} // namespace cg
