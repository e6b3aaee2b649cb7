// SPDX-License-Identifier: Apache-2.0

// expect: a view needs elements that are copied byte by byte
// names: not_packable<std::span<const .*string.*> ?>
#include <farcall/call/pack.hpp>

std::size_t f(std::span<const std::string> value) { return farcall::packed_size(value); }
