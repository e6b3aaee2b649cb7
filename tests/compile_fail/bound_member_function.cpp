// SPDX-License-Identifier: Apache-2.0

// expect: this lambda or functor cannot be sent
// names: _[Mm]em_fn<int ?\(person::\*\)\(\) const>
#include <farcall/farcall.hpp>

#include <functional>

struct person {
  int years;
  int age() const { return years; }
};

int f(const farcall::node& where) {
  return farcall::sync(where, std::mem_fn(&person::age), person{36});
}
