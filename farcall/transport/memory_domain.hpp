#pragma once

#include <farcall/base/clock.hpp>

#include <cstdint>

namespace farcall {

/// Memory of a peer that this process hands out, because the peer has no program that could. Any
/// thread may use it.
class memory_domain {
 public:
  virtual ~memory_domain() = default;

  /// `bytes`, aligned to `alignment` at least; an address of the peer. May wait until the peer is
  /// idle, and for calls that use blocks which were released. Throws out_of_memory naming sizes,
  /// node_failed, and timeout when the wait was longer than until `deadline`.
  [[nodiscard]] virtual std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment,
                                               time_point deadline) = 0;

  /// Frees the block once the calls that have begun before have ended. Does not wait. False when no
  /// block starts there.
  virtual bool release(std::uint64_t address) noexcept = 0;

  /// Whether the addresses are of this memory.
  [[nodiscard]] virtual bool holds(std::uint64_t address, std::uint64_t bytes) const noexcept = 0;

 protected:
  memory_domain() = default;
  memory_domain(const memory_domain&) = default;
  memory_domain& operator=(const memory_domain&) = default;
};

} // namespace farcall
