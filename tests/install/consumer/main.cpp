// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>

#include <cstdio>

namespace fc = farcall;

int add(int a, int b) { return a + b; }

int main(int argc, char** argv) {
  fc::job job{argc, argv};
  const int sum = fc::async(job.targets().front(), add, 40, 2).get();
  std::printf("40 + 2 = %d, computed in another process\n", sum);
  return sum == 42 ? 0 : 1;
}
