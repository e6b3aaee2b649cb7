// SPDX-License-Identifier: Apache-2.0

// expect: what is called must be a function.*For a member function, pass a lambda
// names: int ?\(person::\*\)\(\)
#include <farcall/farcall.hpp>

struct person {
  int age();
};

int f(const farcall::node& where) { return farcall::sync(where, &person::age) + 1; }
