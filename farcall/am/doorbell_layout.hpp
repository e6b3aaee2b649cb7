// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/doorbell.hpp>

#include <cstdint>
#include <span>

namespace farcall::am {

/// Division of a node's doorbells. The first ones belong to the workers, the next to the calling
/// threads, and the next to single-lane workers. The last doorbell wakes the thread that accepts
/// lanes, as transports assume. Lanes that share a doorbell cause spurious wake-ups for each other.
/// All nodes have equally many doorbells.
class doorbell_layout {
 public:
  doorbell_layout(std::span<doorbell> all, std::uint32_t workers) noexcept
      : all_(all), workers_(workers) {}

  [[nodiscard]] doorbell& operator[](std::uint32_t index) const noexcept { return all_[index]; }
  [[nodiscard]] std::uint32_t first_caller() const noexcept { return workers_; }
  [[nodiscard]] std::uint32_t first_lane() const noexcept { return acceptor() - lanes(); }
  [[nodiscard]] std::uint32_t lanes() const noexcept {
    return static_cast<std::uint32_t>(all_.size()) / 4;
  }
  [[nodiscard]] std::uint32_t acceptor() const noexcept {
    return static_cast<std::uint32_t>(all_.size()) - 1;
  }

  /// Wakes the workers of single lanes, and the thread that accepts lanes.
  void notify_lanes() const noexcept {
    for (std::uint32_t i = first_lane(); i <= acceptor(); ++i)
      notify(all_[i]);
  }

 private:
  std::span<doorbell> all_;
  std::uint32_t workers_;
};

} // namespace farcall::am
