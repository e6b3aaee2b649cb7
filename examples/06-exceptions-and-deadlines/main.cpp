// SPDX-License-Identifier: Apache-2.0

// Failures of calls, and how the caller learns of them.
#include <farcall/farcall.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace fc = farcall;
using namespace std::chrono_literals;

double square_root(double x) {
  if (x < 0) throw std::domain_error("no root of " + std::to_string(x));
  double root = x > 1 ? x : 1;
  for (int i = 0; i < 60; ++i)
    root = (root + x / root) / 2;
  return root;
}

int slow(int value) {
  std::this_thread::sleep_for(500ms);
  return value;
}

void crash() { std::abort(); }

int main(int argc, char** argv) {
  fc::job job{argc, argv, fc::job_options{.targets = "shm:2"}};
  const fc::node target = job.targets().front();
  const fc::node victim = job.targets().back();
  int right = 0;

  // A function that throws: the caller gets the exception's type and text.
  try {
    fc::sync(target, square_root, -1.0);
  } catch (const fc::remote_error& e) {
    std::printf("remote_error: %s\n", e.what());
    right += e.type_name() == "std::domain_error" && e.node() == target.id();
  }
  right += fc::sync(target, square_root, 9.0) == 3.0;

  // A deadline: the caller goes on, the call itself runs to its end on the target.
  try {
    fc::sync(target.within(50ms), slow, 1);
  } catch (const fc::timeout& e) {
    std::printf("timeout: %s\n", e.what());
    right += e.node() == target.id();
  }
  // Waiting for some time without giving up the result.
  fc::future<int> patient = fc::async(target, slow, 2);
  while (!patient.wait_for(300ms))
    std::printf("still waiting\n");
  right += patient.get() == 2;

  // A target that dies: its calls fail, now and later; other targets are unaffected.
  try {
    fc::sync(victim, crash);
  } catch (const fc::node_failed& e) {
    std::printf("node_failed: %s\n", e.what());
    right += e.node() == victim.id() && !victim.alive();
  }
  try {
    fc::sync(victim, square_root, 4.0);
  } catch (const fc::node_failed&) {
    ++right;
  }
  if (victim.id() != target.id()) right += fc::sync(target, square_root, 4.0) == 2.0;

  const int expected = victim.id() != target.id() ? 7 : 6;
  std::printf("%d of %d checks passed\n", right, expected);
  return right == expected ? 0 : 1;
}
