// SPDX-License-Identifier: Apache-2.0

// expect: the first argument says where to call: a node
// names: farcall::job
#include <farcall/farcall.hpp>

int twice(int v);

void f(const farcall::job& all) { farcall::post(all, twice, 1); }
