// A library of a user's that the program loads and closes before it has a job, several times.

#include <farcall/farcall.hpp>

namespace {

struct negate {
  int operator()(int v) const { return -v; }
};

} // namespace

extern "C" __attribute__((visibility("default"))) int early_call(const farcall::node& where) {
  return farcall::sync(where, negate{}, 3);
}
