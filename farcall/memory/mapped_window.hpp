// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {

/// Memory of a peer that is mapped into this process.
struct mapped_window {
  std::uint64_t address = 0; ///< in the peer
  std::uint64_t bytes = 0;
  std::byte* here = nullptr;

  /// Returns the local address of the peer's memory [there, there + length); null if this range is
  /// not inside the window.
  [[nodiscard]] std::byte* find(std::uint64_t there, std::uint64_t length) const noexcept {
    const std::uint64_t offset = there - address;
    return offset <= bytes && length <= bytes - offset ? here + offset : nullptr;
  }
};

} // namespace farcall
