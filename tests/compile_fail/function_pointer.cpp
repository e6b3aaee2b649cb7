// SPDX-License-Identifier: Apache-2.0

// expect: a pointer to a function cannot be sent as an argument
// names: not_packable<int ?\(\*\)\(int\)>
#include <farcall/call/pack.hpp>

std::size_t f(int (*value)(int)) { return farcall::packed_size(value); }
