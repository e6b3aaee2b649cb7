// SPDX-License-Identifier: Apache-2.0

// expect: a reference cannot be sent.*by value or by const T&
// names: not_packable<double ?&>
#include <farcall/call/pack.hpp>

void f() { farcall::require_packable<int, double&>(); }
