// SPDX-License-Identifier: Apache-2.0

// A HAM-Offload program with its own main(), built against the installed package.

#include <ham/offload.hpp>

static int reply(int question) { return question * 2; }

int main(int argc, char* argv[]) {
  if (!ham::offload::ham_init(&argc, &argv)) return ham::offload::ham_finalise();
  const int got = ham::offload::sync(1, f2f(&reply, 21));
  ham::offload::ham_finalise();
  return got == 42 ? 0 : 1;
}
