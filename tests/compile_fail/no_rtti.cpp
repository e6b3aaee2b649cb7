// SPDX-License-Identifier: Apache-2.0

// expect: without -fno-rtti
// names: knows callables by the names of their types
// flags: -fno-rtti
#include <farcall/farcall.hpp>

int twice(int v);

int f(const farcall::node& where) { return farcall::sync(where, twice, 1); }
