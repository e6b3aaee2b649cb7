// SPDX-License-Identifier: Apache-2.0

// Buffers without copies: written in place by the host, used in place by kernels, and copied from
// target to target without passing through the host.
#include <farcall/farcall.hpp>

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

namespace fc = farcall;

void scale(fc::remote_span<double> values, double factor) {
  for (double& value : values)
    value *= factor;
}

double sum(fc::remote_span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

int main(int argc, char** argv) {
  fc::job job{argc, argv, fc::job_options{.targets = "shm:2"}};
  const fc::node first = job.targets().front();
  const fc::node second = job.targets().back();
  constexpr std::size_t n = 1000;

  auto a = first.allocate<double>(n);
  auto b = second.allocate<double>(n);

  // The memory is shared with this machine's other processes: no put, the host writes into it.
  const std::span<double> here = fc::map(a);
  std::iota(here.begin(), here.end(), 1.0);

  fc::sync(first, scale, a.span(), 2.0);
  fc::sync(first, scale, a.span().first(n / 2), 0.0);
  std::printf("the host sees what the kernel wrote: a[0] = %g, a[%zu] = %g\n", here[0], n - 1,
              here[n - 1]);

  // From one target to the other; the host only requests the copy.
  fc::copy(a.span(), b.span()).get();
  const double total = fc::sync(second, sum, b.span());

  // Parts of a buffer: only the last ten values are fetched.
  std::vector<double> tail(10);
  fc::get(b.span().subspan(n - 10, 10), tail).get();

  // A view used on a node that does not own the memory is an error, never a stray pointer.
  bool refused = false;
  try {
    fc::sync(second, sum, a.span());
  } catch (const fc::remote_error& e) {
    refused = e.type_name() == "farcall::wrong_node";
    std::printf("as it should: %s\n", e.what());
  }

  double expected = 0;
  for (std::size_t i = n / 2; i < n; ++i)
    expected += 2.0 * static_cast<double>(i + 1);
  std::printf("sum on node %u: %g, expected %g\n", second.id(), total, expected);
  const bool right = total == expected && here[0] == 0 && here[n - 1] == 2.0 * n &&
                     tail.front() == 2.0 * (n - 9) && tail.back() == 2.0 * n;
  return right && (refused || first.id() == second.id()) ? 0 : 1;
}
