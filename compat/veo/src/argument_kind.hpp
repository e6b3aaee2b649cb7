#pragma once

#include <cstdint>

namespace farcall::veo {

/// How the caller gave an argument. Words are what a register of the Vector Engine would hold:
/// integers widened to 64 bits, doubles as they are, floats in the upper half.
enum class argument_kind : std::uint8_t {
  integer = 0,
  real64 = 1,
  real32 = 2,
  frame = 3, ///< the word is an offset into the call's frame; the kernel gets an address
};

} // namespace farcall::veo
