// SPDX-License-Identifier: Apache-2.0

// Handlers of a target throw while other handlers of the same worker wait. AddressSanitizer reads
// the stack of the throwing thread, which is a fiber's stack here.
#include <farcall/farcall.hpp>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

namespace fc = farcall;

namespace {

constexpr int rounds = 50;
constexpr int throws_in_a_round = 10;

std::atomic<int> released{0};

/// Handler on the host: returns once the host has released `round` rounds.
bool wait_for_round(int round) {
  while (released.load() < round)
    std::this_thread::yield();
  return true;
}

bool wait(int round) { return fc::sync(fc::host(), wait_for_round, round); }

int throw_below(int depth) {
  const std::string text(300, 'x');
  if (depth > 0) return throw_below(depth - 1) + static_cast<int>(text.size());
  throw std::runtime_error(text);
}

} // namespace

int main(int argc, char** argv) {
  fc::job job{argc, argv, fc::job_options{.targets = "shm:1"}};
  const fc::node target = job.targets().front();
  int caught = 0;
  for (int round = 1; round <= rounds; ++round) {
    fc::future<bool> first = fc::async(target, wait, round);
    fc::future<bool> second = fc::async(target, wait, round);
    for (int depth = 0; depth < throws_in_a_round; ++depth) {
      try {
        (void)fc::sync(target, throw_below, depth);
      } catch (const fc::remote_error&) {
        ++caught;
      }
    }
    released.store(round);
    if (!first.get() || !second.get()) return 2;
  }
  std::printf("%d exceptions\n", caught);
  return caught == rounds * throws_in_a_round ? 0 : 1;
}
