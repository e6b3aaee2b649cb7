// SPDX-License-Identifier: Apache-2.0

// expect: a parameter of type T& cannot be sent: the target would change a copy
// names: packed_parameter<int ?&>
#include <farcall/farcall.hpp>

void increment(int& value);

void f(const farcall::node& where, int& value) { farcall::post(where, increment, value); }
