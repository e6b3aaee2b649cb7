// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>

#include <cstdint>

namespace farcall {

/// Memory of a peer that this process allocates for it, because the peer runs no program that could
/// allocate. Any thread may use it.
class memory_domain {
 public:
  virtual ~memory_domain() = default;

  /// Allocates a block of `bytes` bytes, aligned to at least `alignment`, and returns the block's
  /// address on the peer. May wait until the peer is idle, or until launches have ended that still
  /// use released blocks. Throws out_of_memory if there is no memory for the block, node_failed if
  /// the peer has failed, and timeout if the wait has not ended by `deadline`.
  [[nodiscard]] virtual std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment,
                                               time_point deadline) = 0;

  /// Frees the block once all launches that have already begun have ended. Does not wait. Returns
  /// false if no block starts at this address.
  virtual bool release(std::uint64_t address) noexcept = 0;

  /// True if this memory contains the whole range.
  [[nodiscard]] virtual bool holds(std::uint64_t address, std::uint64_t bytes) const noexcept = 0;

 protected:
  memory_domain() = default;
  memory_domain(const memory_domain&) = default;
  memory_domain& operator=(const memory_domain&) = default;
};

} // namespace farcall
