// SPDX-License-Identifier: Apache-2.0

// Memory on a target: allocate it, fill it, and let a function work on it there.
#include <farcall/farcall.hpp>

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

namespace fc = farcall;

// A remote_span is a view of memory on some node. It is sent as it is, and may be used like a
// std::span on the node that owns the memory.
double inner_product(fc::remote_span<const double> a, fc::remote_span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

int main(int argc, char** argv) {
  fc::job job{argc, argv};
  const fc::node target = job.targets().front();

  constexpr std::size_t n = 1024;
  std::vector<double> x(n, 0.5);
  std::vector<double> y(n);
  std::iota(y.begin(), y.end(), 1.0);

  auto a = target.allocate<double>(n); // frees itself
  auto b = target.allocate<double>(n);
  fc::future<void> x_there = fc::put(x, a);
  fc::future<void> y_there = fc::put(y, b);
  x_there.get();
  y_there.get();

  fc::future<double> result = fc::async(target, inner_product, a.span(), b.span());
  // The target computes; meanwhile the host can do other work.
  const double expected = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);

  const double got = result.get();
  std::printf("inner product of %zu elements: %.1f, expected %.1f\n", n, got, expected);
  return got == expected ? 0 : 1;
}
