// SPDX-License-Identifier: Apache-2.0

// expect: what is called must be a function.*For a member function, pass a lambda
// names: int ?\(person::\*\)\(\)
#include <farcall/farcall.hpp>

struct person {
  int age();
};

void f(const farcall::node& where) { farcall::post(where, &person::age); }
