// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/shm/receive_segment.hpp>

#include <algorithm>
#include <atomic>
#include <new>

namespace farcall::shm {
namespace {

constexpr std::size_t doorbells_at = sizeof(receive_segment_header);
static_assert(block_bytes <= segment_alignment &&
              doorbells_at + receive_segment_doorbells * sizeof(doorbell) <= block_bytes);
constexpr std::size_t lanes_at = doorbells_at + receive_segment_doorbells * sizeof(doorbell);
/// Returns the offset of the first ring, which starts on a page of its own. If a lane is never
/// opened, its rings' pages are then never touched, and take no memory.
constexpr std::size_t rings_at(std::uint32_t lanes) noexcept {
  return align_up(lanes_at + std::size_t{lanes} * sizeof(lane_control), std::size_t{4096});
}

} // namespace

std::size_t receive_segment::bytes(std::uint32_t ring_bytes, std::uint32_t lanes) noexcept {
  return rings_at(lanes) + std::size_t{lanes} * 2 * ring_bytes;
}

receive_segment receive_segment::format(const segment& memory, std::uint32_t ring_bytes,
                                        std::uint32_t lanes) {
  receive_segment made;
  made.base_ = memory.data();
  made.ring_bytes_ = ring_bytes;
  made.lanes_ = lanes;
  auto* header = new (made.base_) receive_segment_header;
  header->lanes = lanes;
  header->ring_bytes = ring_bytes;
  new (made.base_ + doorbells_at) doorbell[receive_segment_doorbells];
  for (doorbell& b : made.doorbells())
    b.mark = block_mark;
  // The lanes need no initialisation, because fresh pages are zero, and zero is the state of a free
  // lane.
  static_assert(lane_word(lane_state::free, 0) == 0);
  return made;
}

receive_segment receive_segment::view(const segment& memory) {
  receive_segment seen;
  seen.base_ = memory.data();
  receive_segment_header& header = seen.header();
  // Load each value once, because the peer may change the values at any time.
  seen.ring_bytes_ = std::atomic_ref(header.ring_bytes).load(std::memory_order_relaxed);
  seen.lanes_ = std::atomic_ref(header.lanes).load(std::memory_order_relaxed);
  if (header.magic != receive_segment_magic || seen.lanes_ == 0 ||
      seen.lanes_ > max_receive_segment_lanes || header.doorbells != receive_segment_doorbells ||
      seen.ring_bytes_ < min_ring || !is_power_of_two(seen.ring_bytes_) ||
      bytes(seen.ring_bytes_, seen.lanes_) > memory.size()) {
    throw malformed_message("a peer's shared segment is not a receive segment of this version");
  }
  return seen;
}

receive_segment_header& receive_segment::header() const noexcept {
  return *std::launder(reinterpret_cast<receive_segment_header*>(base_));
}

std::span<doorbell> receive_segment::doorbells() const noexcept {
  return {std::launder(reinterpret_cast<doorbell*>(base_ + doorbells_at)),
          receive_segment_doorbells};
}

lane_control& receive_segment::lane(std::uint32_t index) const noexcept {
  return *std::launder(reinterpret_cast<lane_control*>(base_ + lanes_at) + index);
}

std::byte* receive_segment::request_ring(std::uint32_t index) const noexcept {
  return base_ + rings_at(lanes_) + std::size_t{index} * 2 * ring_bytes_;
}

std::byte* receive_segment::reply_ring(std::uint32_t index) const noexcept {
  return request_ring(index) + ring_bytes_;
}

void receive_segment::will_claim(std::uint32_t index) const noexcept {
  std::atomic<std::uint32_t>& claimed = header().claimed;
  std::uint32_t now = claimed.load(std::memory_order_relaxed);
  // Relaxed is enough, because another thread reads the lane only after it has seen the arrival
  // counter, which the opener increments later.
  while (now <= index &&
         !claimed.compare_exchange_weak(now, index + 1, std::memory_order_relaxed)) {
  }
}

std::uint32_t receive_segment::lanes_claimed() const noexcept {
  // Limit the value, because peers can write any value into the segment.
  return std::min(header().claimed.load(std::memory_order_relaxed), lanes_);
}

} // namespace farcall::shm
