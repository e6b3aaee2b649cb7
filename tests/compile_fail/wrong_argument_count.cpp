// SPDX-License-Identifier: Apache-2.0

// expect: this call gives more or fewer arguments than the function has parameters
// names: int ?\(\*\)\(int, int\)
#include <farcall/farcall.hpp>

int sum(int a, int b);

void f(const farcall::node& where) { farcall::post(where, sum, 1); }
