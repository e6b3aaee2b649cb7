// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/segment.hpp>

#include <atomic>
#include <cstdint>
#include <span>

/// The shared memory segment in which a node receives: doorbells that wake its threads, and the
/// lanes that other nodes open to it. Every node of the job on this machine maps the segment.
/// docs/wire.md describes its layout.
namespace farcall::shm {

inline constexpr std::uint64_t receive_segment_magic = 0x656d6f6863726166; // "farchome"
inline constexpr std::uint32_t receive_segment_doorbells = 512;
/// Default number of lanes of a node, and the largest number that can be set.
inline constexpr std::uint32_t receive_segment_lanes = 256;
inline constexpr std::uint32_t max_receive_segment_lanes = 16384;

enum class lane_state : std::uint32_t {
  free = 0,    ///< any opener may claim the lane
  claimed = 1, ///< its opener initialises it
  open = 2,    ///< in use
  closing = 3, ///< the opener sends no more, but its last records are still to be read
};

/// Packs a lane's state and the number of its opener into one word. If the opener dies after it has
/// claimed the lane, the word still says whose lane it was, so that the lane can be freed. The word
/// has the whole number, with the epoch, because a process whose node has failed may still run, and
/// may claim a lane when another node has the place.
[[nodiscard]] constexpr std::uint64_t lane_word(lane_state state, node_id opener) noexcept {
  return static_cast<std::uint64_t>(state) | std::uint64_t{opener} << 32;
}
[[nodiscard]] constexpr lane_state state_of(std::uint64_t word) noexcept {
  return static_cast<lane_state>(word & 0xff);
}
[[nodiscard]] constexpr node_id opener_of(std::uint64_t word) noexcept {
  return static_cast<node_id>(word >> 32);
}

struct alignas(line_bytes) lane_control {
  std::atomic<std::uint64_t> word{0}; ///< value from lane_word(); written by opener and receiver
  std::uint32_t doorbell = 0;         ///< index of the opener's doorbell, which replies notify
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  alignas(line_bytes) std::atomic<std::uint64_t> requests_consumed{0}; ///< written by the receiver
  alignas(line_bytes) std::atomic<std::uint64_t> replies_consumed{0};  ///< written by the opener
};
static_assert(sizeof(lane_control) == 3 * line_bytes);

struct alignas(line_bytes) receive_segment_header {
  std::uint64_t magic = receive_segment_magic;
  std::uint32_t lanes = receive_segment_lanes;
  std::uint32_t doorbells = receive_segment_doorbells;
  std::uint32_t ring_bytes = 0;
  std::uint32_t reserved = 0;
  /// Counter that an opener increments when it has opened a lane.
  alignas(line_bytes) std::atomic<std::uint32_t> arrivals{0};
  /// Limit of the claimed lanes: each lane that was ever claimed has a lower index.
  std::atomic<std::uint32_t> claimed{0};
  /// Common doorbell, which is notified together with each other doorbell of the segment. A thread
  /// can sleep on it in place of several doorbells.
  doorbell any;
};
static_assert(sizeof(receive_segment_header) == block_doorbell_at + sizeof(doorbell));

/// View of a receive segment, which the view does not own.
class receive_segment {
 public:
  receive_segment() noexcept = default;

  [[nodiscard]] static std::size_t bytes(std::uint32_t ring_bytes,
                                         std::uint32_t lanes = receive_segment_lanes) noexcept;

  /// Initialises a new segment, whose size is bytes(ring_bytes, lanes).
  [[nodiscard]] static receive_segment format(const segment& memory, std::uint32_t ring_bytes,
                                              std::uint32_t lanes = receive_segment_lanes);

  /// Checks that `memory` holds a complete receive segment, and returns a view of it. Throws
  /// malformed_message if not.
  [[nodiscard]] static receive_segment view(const segment& memory);

  [[nodiscard]] explicit operator bool() const noexcept { return base_ != nullptr; }
  [[nodiscard]] receive_segment_header& header() const noexcept;
  [[nodiscard]] std::span<doorbell> doorbells() const noexcept;
  [[nodiscard]] lane_control& lane(std::uint32_t index) const noexcept;
  [[nodiscard]] std::byte* request_ring(std::uint32_t index) const noexcept;
  [[nodiscard]] std::byte* reply_ring(std::uint32_t index) const noexcept;
  [[nodiscard]] std::uint32_t ring_bytes() const noexcept { return ring_bytes_; }
  [[nodiscard]] std::uint32_t lanes() const noexcept { return lanes_; }

  /// Notes that lane `index` is about to be claimed. Called by the lane's opener before the claim.
  void will_claim(std::uint32_t index) const noexcept;
  /// Returns the limit of the claimed lanes: each lane that was ever claimed has a lower index.
  [[nodiscard]] std::uint32_t lanes_claimed() const noexcept;

 private:
  std::byte* base_ = nullptr;
  std::uint32_t ring_bytes_ = 0;
  std::uint32_t lanes_ = 0;
};

} // namespace farcall::shm
