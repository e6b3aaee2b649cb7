// SPDX-License-Identifier: Apache-2.0

// The heat equation on a ring, by equals: each node has a part of the ring, and in each step sends
// its first and last value to its neighbours. All nodes run this main(); start it with
//
//   farcall run --spmd -n 4 ./example-09-heat-equation
#include <farcall/farcall.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace fc = farcall;

namespace {

constexpr std::size_t points_per_node = 100;
constexpr int steps = 500;

/// A value next to this node's part, and its step. A neighbour may be a step ahead.
struct ghost {
  std::array<double, 2> value{};
  std::array<int, 2> step{-1, -1};

  void take(int of_step, double v) {
    value[static_cast<std::size_t>(of_step % 2)] = v;
    step[static_cast<std::size_t>(of_step % 2)] = of_step;
  }
  [[nodiscard]] bool has(int s) const { return step[static_cast<std::size_t>(s % 2)] == s; }
  [[nodiscard]] double at(int s) const { return value[static_cast<std::size_t>(s % 2)]; }
};
ghost left;
ghost right;

// Neighbours call these; they run on the main thread while it waits.
void take_left(int step, double value) { left.take(step, value); }
void take_right(int step, double value) { right.take(step, value); }

} // namespace

int main(int argc, char** argv) {
  fc::job job{fc::spmd, argc, argv};
  const auto nodes = static_cast<fc::node_id>(job.size());
  const fc::node before = job.node_at((job.rank() + nodes - 1) % nodes);
  const fc::node behind = job.node_at((job.rank() + 1) % nodes);

  std::vector<double> u(points_per_node, job.rank() == 0 ? 1.0 : 0.0);
  std::vector<double> next(points_per_node);
  for (int step = 0; step < steps; ++step) {
    fc::post(before, take_right, step, u.front());
    fc::post(behind, take_left, step, u.back());
    job.wait_until([step] { return left.has(step) && right.has(step); });
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double l = i == 0 ? left.at(step) : u[i - 1];
      const double r = i + 1 == u.size() ? right.at(step) : u[i + 1];
      next[i] = u[i] + 0.25 * (l - 2 * u[i] + r);
    }
    u.swap(next);
  }

  // The total heat is constant.
  double sum = 0;
  for (const double value : u)
    sum += value;
  double total = 0;
  for (const double part : job.all_gather(sum))
    total += part;
  if (job.rank() == 0) std::printf("%zu nodes, %.6f units of heat\n", job.size(), total);
  return std::abs(total - points_per_node) < 1e-9 ? 0 : 1;
}
