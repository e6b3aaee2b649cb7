#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/segment.hpp>

#include <atomic>
#include <cstdint>
#include <span>

/// The segment in which a node receives: doorbells to wake its threads, and the lanes that others
/// open to it. Every node of the job on this machine maps it. The layout is described in
/// docs/wire.md.
namespace farcall::shm {

inline constexpr std::uint64_t receive_segment_magic = 0x656d6f6863726166; // "farchome"
inline constexpr std::uint32_t receive_segment_doorbells = 512;
/// Of a node, unless it is to have more, and the most.
inline constexpr std::uint32_t receive_segment_lanes = 256;
inline constexpr std::uint32_t most_receive_segment_lanes = 16384;

enum class lane_state : std::uint32_t {
  free = 0,    ///< anybody may claim it
  claimed = 1, ///< its opener is setting it up
  open = 2,    ///< in use
  closing = 3, ///< the opener will send no more; what it sent is still to be read
};

/// State and opener in one word, so that a lane whose opener died while setting it up can be told
/// from others'.
[[nodiscard]] constexpr std::uint32_t lane_word(lane_state state, node_id opener) noexcept {
  return static_cast<std::uint32_t>(state) | opener << 8;
}
[[nodiscard]] constexpr lane_state state_of(std::uint32_t word) noexcept {
  return static_cast<lane_state>(word & 0xff);
}
[[nodiscard]] constexpr node_id opener_of(std::uint32_t word) noexcept { return word >> 8; }

struct alignas(line_bytes) lane_control {
  std::atomic<std::uint32_t> word{0}; ///< lane_word(); opener and receiver write
  std::uint32_t doorbell = 0;         ///< opener's doorbell for replies
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  alignas(line_bytes) std::atomic<std::uint64_t> requests_consumed{0}; ///< receiver writes
  alignas(line_bytes) std::atomic<std::uint64_t> replies_consumed{0};  ///< opener writes
};
static_assert(sizeof(lane_control) == 3 * line_bytes);

struct alignas(line_bytes) receive_segment_header {
  std::uint64_t magic = receive_segment_magic;
  std::uint32_t lanes = receive_segment_lanes;
  std::uint32_t doorbells = receive_segment_doorbells;
  std::uint32_t ring_bytes = 0;
  std::uint32_t reserved = 0;
  alignas(line_bytes) std::atomic<std::uint32_t> arrivals{0}; ///< openers add one per lane
  std::atomic<std::uint32_t> claimed{0}; ///< lanes with a greater index were never claimed
  doorbell any;                          ///< that of the block of the others
};
static_assert(sizeof(receive_segment_header) == block_doorbell_at + sizeof(doorbell));

/// View of a receive segment. Does not own it.
class receive_segment {
 public:
  receive_segment() noexcept = default;

  [[nodiscard]] static std::size_t bytes(std::uint32_t ring_bytes,
                                         std::uint32_t lanes = receive_segment_lanes) noexcept;

  /// Lays out a fresh segment of bytes(ring_bytes, lanes).
  [[nodiscard]] static receive_segment format(const segment& memory, std::uint32_t ring_bytes,
                                              std::uint32_t lanes = receive_segment_lanes);

  /// Checks that `memory` is a receive segment whose parts lie inside it; throws malformed_message
  /// otherwise.
  [[nodiscard]] static receive_segment view(const segment& memory);

  [[nodiscard]] explicit operator bool() const noexcept { return base_ != nullptr; }
  [[nodiscard]] receive_segment_header& header() const noexcept;
  [[nodiscard]] std::span<doorbell> doorbells() const noexcept;
  [[nodiscard]] lane_control& lane(std::uint32_t index) const noexcept;
  [[nodiscard]] std::byte* request_ring(std::uint32_t index) const noexcept;
  [[nodiscard]] std::byte* reply_ring(std::uint32_t index) const noexcept;
  [[nodiscard]] std::uint32_t ring_bytes() const noexcept { return ring_bytes_; }
  [[nodiscard]] std::uint32_t lanes() const noexcept { return lanes_; }

  /// Before lane `index` is claimed. Any opener.
  void will_claim(std::uint32_t index) const noexcept;
  /// Lanes from this one on have never been claimed.
  [[nodiscard]] std::uint32_t lanes_claimed() const noexcept;

 private:
  std::byte* base_ = nullptr;
  std::uint32_t ring_bytes_ = 0;
  std::uint32_t lanes_ = 0;
};

} // namespace farcall::shm
