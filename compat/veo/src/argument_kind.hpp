// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace farcall::veo {

/// Type with which the caller set an argument. Each argument is a word with the layout of a
/// register of the Vector Engine: an integer is widened to 64 bits, a double is stored as it is,
/// and a float is in the upper half.
enum class argument_kind : std::uint8_t {
  integer = 0,
  real64 = 1,
  real32 = 2,
  /// The word is an offset into the call's frame; the kernel gets the address at that offset.
  frame = 3,
};

} // namespace farcall::veo
