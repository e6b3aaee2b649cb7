// SPDX-License-Identifier: Apache-2.0

// expect: a buffer, future or lane stays where it is: pass buffer.span\(\)
// names: not_packable<farcall::buffer<int> ?>
#include <farcall/farcall.hpp>

int look(const farcall::buffer<int>& values);

void f(const farcall::node& where, const farcall::buffer<int>& b) { farcall::post(where, look, b); }
