// SPDX-License-Identifier: Apache-2.0

// Example program of the guide's page "Seeing what a job does": it takes turns with its target, so
// each of the two is idle while the other works.

#include <farcall/farcall.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace fc = farcall;

namespace steps {

/// Slow on purpose: makes a text and compares it with others to find one number.
[[gnu::noinline]] double weight_of(const std::map<std::string, double>& weights, int i) {
  return weights.at("weight " + std::to_string(i % 50));
}

[[gnu::noinline]] double weighted_sum(const std::vector<double>& values) {
  std::map<std::string, double> weights;
  for (int i = 0; i < 50; ++i)
    weights["weight " + std::to_string(i)] = 1.0 / (1 + i);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += std::sqrt(values[i]) * std::cbrt(values[i]);
    if (i % 4 == 0) sum += weight_of(weights, static_cast<int>(i));
  }
  return sum;
}

[[gnu::noinline]] std::vector<double> next_values(std::size_t count, double from) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::exp(std::sin(from + static_cast<double>(i)));
  return values;
}

} // namespace steps

int main(int argc, char** argv) {
  fc::job job{argc, argv};
  const fc::node target = job.targets().front();
  const int count = argc > 1 ? std::atoi(argv[1]) : 100;
  double sum = 0;
  for (int step = 0; step < count; ++step) {
    const std::vector<double> values = steps::next_values(100'000, sum);
    sum = fc::sync(target, fc::fn<steps::weighted_sum>, values);
  }
  std::printf("%g\n", sum);
}
