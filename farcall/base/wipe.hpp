// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Erases secrets from memory.

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstring>
#include <span>

namespace farcall {

/// Overwrites memory that may hold a secret, even if the memory is never read again.
template <class T, std::size_t Size>
void wipe(std::span<T, Size> what) noexcept {
  // Skip empty containers, which may have no memory, because explicit_bzero() takes no null
  // pointer.
  if (!what.empty()) ::explicit_bzero(what.data(), what.size_bytes());
}

} // namespace farcall
