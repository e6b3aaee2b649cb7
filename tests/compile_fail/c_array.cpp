// SPDX-License-Identifier: Apache-2.0

// expect: a C array cannot be sent.*std::array
// names: not_packable<char ?\[6\]>
#include <farcall/call/pack.hpp>

std::size_t f() { return farcall::packed_size("hello"); }
