// SPDX-License-Identifier: Apache-2.0

// A user's library that the program loads and closes several times before it has a job.

#include <farcall/farcall.hpp>

namespace {

struct negate {
  int operator()(int v) const { return -v; }
};

} // namespace

extern "C" __attribute__((visibility("default"))) int early_call(const farcall::node& where) {
  return farcall::sync(where, negate{}, 3);
}
