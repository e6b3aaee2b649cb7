// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace farcall {

/// Size of a line of the wire format, in bytes. It is a constant of the format.
/// std::hardware_destructive_interference_size is not used, because two binaries that share a ring
/// may disagree on it.
inline constexpr std::size_t line_bytes = 64;

/// Rounds `value` up to a multiple of `alignment`, which is a power of two.
template <class Integer>
[[nodiscard]] constexpr Integer align_up(Integer value,
                                         std::type_identity_t<Integer> alignment) noexcept {
  return static_cast<Integer>((value + alignment - 1) & ~(alignment - 1));
}

/// True if exactly one bit is set; false for the value 0.
[[nodiscard]] constexpr bool is_power_of_two(std::uint64_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

} // namespace farcall
