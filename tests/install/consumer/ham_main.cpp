// SPDX-License-Identifier: Apache-2.0

// A HAM-Offload program, built against the installed package.

#include <ham/offload.hpp>

#include <cstdio>

static int reply(int question) { return question * 2; }

int main(int argc, char* argv[]) {
  HAM_UNUSED_VAR(argc);
  HAM_UNUSED_VAR(argv);
  const int got = ham::offload::sync(1, f2f(&reply, 21));
  std::printf("%d from %s\n", got, ham::offload::get_node_description(1).name());
  return got == 42 ? 0 : 1;
}
