// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>

#include <cstdio>
#include <exception>

namespace fc = farcall;

/// A function that the targets' programs lack.
unsigned long hits(unsigned long points, unsigned long seed) { return points * seed; }

int main(int argc, char** argv) {
  fc::job job{argc, argv};
  try {
    std::printf("%lu\n", fc::sync(job.targets().front(), hits, 6UL, 7UL));
  } catch (const fc::unknown_function& e) {
    std::printf("unknown: %s\n", e.what());
  }
}
