#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {

/// Memory of a peer that is shared with this process.
struct mapped_window {
  std::uint64_t address = 0; ///< there
  std::uint64_t bytes = 0;
  std::byte* here = nullptr;

  /// Where [address, address + bytes) of the peer lies here; null when it is not inside.
  [[nodiscard]] std::byte* find(std::uint64_t there, std::uint64_t length) const noexcept {
    const std::uint64_t offset = there - address;
    return offset <= bytes && length <= bytes - offset ? here + offset : nullptr;
  }
};

} // namespace farcall
