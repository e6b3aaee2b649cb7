// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Counts this process's allocations from the C library's heap, by any function.
namespace farcall::test {

/// Returns the number of allocations so far.
[[nodiscard]] std::uint64_t allocations() noexcept;

} // namespace farcall::test
