#pragma once

/// \file
/// Secrets that are to leave no copy behind.

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstring>
#include <span>

namespace farcall {

/// Overwrites what may have been a secret, also where nobody reads it again.
template <class T, std::size_t Size>
void wipe(std::span<T, Size> what) noexcept {
  // An empty container may have no memory, and that function takes no null pointer.
  if (!what.empty()) ::explicit_bzero(what.data(), what.size_bytes());
}

} // namespace farcall
