#include "tests/unlike/program.hpp"

#include <cstdio>

namespace unlike {

/// Callables that the host has not, so that the rows of the two tables have other numbers. Their
/// names sort before and between the others'.
int a_first_extra(int v) { return v; }
int pxtra_in_the_middle(int v) { return v; }
int zz_last_extra(int v) { return v; }

int call_extras(const fc::node& there) {
  return fc::sync(there, fc::fn<&a_first_extra>, 1) +
         fc::sync(there, fc::fn<&pxtra_in_the_middle>, 2) +
         fc::sync(there, fc::fn<&zz_last_extra>, 3) +
         fc::sync(there, [](short v) { return int{v}; }, short{4});
}

} // namespace unlike

int main() {
  farcall::serve_if_target();
  std::puts("This is a target for the tests of unlike programs; the tests start it.");
  return unlike::call_extras(farcall::node{});
}
