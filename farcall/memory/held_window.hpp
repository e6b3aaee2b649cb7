// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/mapped_window.hpp>

#include <cstddef>
#include <memory>

namespace farcall {

/// Memory that `owner` keeps mapped in this process.
struct held_bytes {
  std::byte* here = nullptr;
  std::shared_ptr<const void> owner;
};

/// Window of a peer that `owner` keeps mapped in this process.
struct held_window {
  mapped_window range;
  std::shared_ptr<const void> owner;
};

} // namespace farcall
