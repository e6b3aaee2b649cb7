// SPDX-License-Identifier: Apache-2.0

// expect: a std::span that can be written through cannot be sent.*std::span<const T>
// names: not_packable<std::span<int.*> ?>
#include <farcall/call/pack.hpp>

std::size_t f(std::span<int> value) { return farcall::packed_size(value); }
