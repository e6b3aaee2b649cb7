// SPDX-License-Identifier: Apache-2.0

// expect: shared ownership cannot reach across nodes.*std::unique_ptr
// names: not_packable<std::shared_ptr<int> ?>
#include <farcall/call/pack.hpp>

#include <memory>

std::size_t f(const std::shared_ptr<int>& value) { return farcall::packed_size(value); }
