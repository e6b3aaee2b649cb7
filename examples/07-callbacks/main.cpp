// SPDX-License-Identifier: Apache-2.0

// Calls in the other direction: a target calls the host while the host waits for it.
#include <farcall/farcall.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>

namespace fc = farcall;

// Counted in the host process; targets have their own variable, which stays zero.
std::atomic<int> evaluations = 0;

double polynomial(double x) {
  ++evaluations;
  return x * x * x - 2 * x - 5;
}

// Runs on a target and asks the host for every value it needs.
double bisect(double low, double high, int steps) {
  for (int i = 0; i < steps; ++i) {
    const double middle = (low + high) / 2;
    const double value = fc::sync(fc::host(), polynomial, middle);
    (value < 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Host and target call each other in turn, each waiting for the other. A thread that waits serves
// incoming calls, so this cannot deadlock.
int bounce(fc::node_id other, int depth) {
  if (depth == 0) return 0;
  const fc::node_id self = fc::this_node().id();
  return 1 + fc::sync(fc::node_at(other), bounce, self, depth - 1);
}

int evaluations_here() { return evaluations; }

int main(int argc, char** argv) {
  fc::job job{argc, argv};
  const fc::node target = job.targets().front();

  const double root = fc::sync(target, bisect, 2.0, 3.0, 50);
  std::printf("root %.12f after %d evaluations on the host\n", root, evaluations.load());

  const int depth = fc::sync(target, bounce, fc::host().id(), 100);
  std::printf("host and target bounced a call %d times\n", depth);

  // Lambdas carry what they capture; here the target calls itself.
  const double offset = 0.5;
  const double sum = fc::sync(target, [offset] {
    return offset + fc::sync(fc::this_node(), [](double x) { return 2 * x; }, 10.0);
  });
  std::printf("a target called itself: %.1f\n", sum);

  const bool right = std::abs(root * root * root - 2 * root - 5) < 1e-9 && evaluations == 50 &&
                     fc::sync(target, evaluations_here) == 0 && depth == 100 && sum == 20.5;
  return right ? 0 : 1;
}
