// SPDX-License-Identifier: Apache-2.0

// expect: a C array cannot be sent: pass a std::array
// names: not_packable<(const )?int ?\[3\]>
#include <farcall/farcall.hpp>

int look(const int (&values)[3]);

void f(const farcall::node& where, const int (&values)[3]) { farcall::post(where, look, values); }
