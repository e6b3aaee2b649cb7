// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/sanitizer.hpp>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace farcall::test {

/// Returns the number of rounds of a stress test: a fifth of `full`, or all of it if
/// FARCALL_TEST_LENGTH is `full`, as in `./run soak` without an argument. Sanitized programs run
/// `sanitized` rounds.
inline std::uint64_t stress_rounds(std::uint64_t full, std::uint64_t sanitized) noexcept {
  if constexpr (under_sanitizer) return sanitized;
  const char* const length = std::getenv("FARCALL_TEST_LENGTH");
  return length != nullptr && std::string_view(length) == "full" ? full : full / 5;
}

} // namespace farcall::test
