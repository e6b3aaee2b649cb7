#include <farcall/base/error.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/shm/home.hpp>

#include <new>

namespace farcall::shm {
namespace {

constexpr std::size_t bells_at = sizeof(home_header);
constexpr std::size_t lanes_at = bells_at + home_bells * sizeof(bell);
/// On a page of its own, so that rings of lanes that are never opened take no memory.
constexpr std::size_t rings_at =
    align_up(lanes_at + home_lanes * sizeof(lane_block), std::size_t{4096});

} // namespace

std::size_t home::bytes(std::uint32_t ring_bytes) noexcept {
  return rings_at + std::size_t{home_lanes} * 2 * ring_bytes;
}

home home::format(const segment& memory, std::uint32_t ring_bytes) {
  home made;
  made.base_ = memory.data();
  made.ring_bytes_ = ring_bytes;
  auto* header = new (made.base_) home_header;
  header->ring_bytes = ring_bytes;
  new (made.base_ + bells_at) bell[home_bells];
  // Fresh pages are zero, which is a free lane.
  static_assert(lane_word(lane_state::free, 0) == 0);
  return made;
}

home home::view(const segment& memory) {
  home seen;
  seen.base_ = memory.data();
  const home_header& header = seen.header();
  seen.ring_bytes_ = header.ring_bytes;
  if (header.magic != home_magic || header.lanes != home_lanes || header.bells != home_bells ||
      seen.ring_bytes_ < smallest_ring || !is_power_of_two(seen.ring_bytes_) ||
      bytes(seen.ring_bytes_) > memory.size()) {
    throw malformed_message("a peer's shared segment is not a farcall home of this version");
  }
  return seen;
}

home_header& home::header() const noexcept {
  return *std::launder(reinterpret_cast<home_header*>(base_));
}

std::span<bell> home::bells() const noexcept {
  return {std::launder(reinterpret_cast<bell*>(base_ + bells_at)), home_bells};
}

lane_block& home::lane(std::uint32_t index) const noexcept {
  return *std::launder(reinterpret_cast<lane_block*>(base_ + lanes_at) + index);
}

std::byte* home::request_ring(std::uint32_t index) const noexcept {
  return base_ + rings_at + std::size_t{index} * 2 * ring_bytes_;
}

std::byte* home::reply_ring(std::uint32_t index) const noexcept {
  return request_ring(index) + ring_bytes_;
}

} // namespace farcall::shm
