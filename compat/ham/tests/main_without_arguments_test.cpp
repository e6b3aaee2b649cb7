// SPDX-License-Identifier: Apache-2.0

// A main() without parameters, as in the figures of HAM's papers.

#include <ham/offload.hpp>

namespace {

int plus_one(int v) { return v + 1; }

} // namespace

int main() {
  const int got = ham::offload::sync(1, f2f(&plus_one, 41));
  return got == 42 ? 0 : 1;
}
