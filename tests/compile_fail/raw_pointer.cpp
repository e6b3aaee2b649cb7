// SPDX-License-Identifier: Apache-2.0

// expect: a raw pointer cannot be sent.*Pass the value, a std::span<const T>
// names: not_packable<int ?\*>
#include <farcall/call/pack.hpp>

std::size_t f(int* value) { return farcall::packed_size(value); }
