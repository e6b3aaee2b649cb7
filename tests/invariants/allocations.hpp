#pragma once

#include <cstdint>

/// Counts what this process takes from the C library's heap, by whichever way.
namespace farcall::test {

[[nodiscard]] std::uint64_t allocations() noexcept;

} // namespace farcall::test
