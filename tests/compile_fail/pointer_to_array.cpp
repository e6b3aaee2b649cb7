// SPDX-License-Identifier: Apache-2.0

// expect: only a plain std::unique_ptr<T> can be sent.*std::vector
// names: not_packable<std::unique_ptr<int ?\[\].*> ?>
#include <farcall/call/pack.hpp>

#include <memory>

std::size_t f(const std::unique_ptr<int[]>& value) { return farcall::packed_size(value); }
