#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// What nodes send each other about lanes where a network carries messages (message_lane.hpp). The
/// bytes of a lane follow its header and have no form of their own.
namespace farcall {

enum class lane_message : std::uint16_t {
  open = 1, ///< open_header: a lane; comes before anything else of it
  bytes,    ///< lane_header: what the sender's user has committed
  credit,   ///< lane_header: how far the sender's user has read
  close,    ///< lane_header: the opener's user is done, and everything was sent
  closed,   ///< lane_header: the acceptor has given the lane back
};
inline constexpr std::uint16_t last_lane_message = 5;

/// A lane between two nodes: its place in the opener's table, and how often that was used before,
/// which late messages of the lane before it do not know.
struct lane_number {
  std::uint32_t place = 0;
  std::uint32_t use = 0;

  friend bool operator==(const lane_number&, const lane_number&) = default;
};
inline constexpr std::uint32_t most_places = 2048;
inline constexpr std::uint32_t most_nodes = std::uint32_t{1} << 20;

/// As short as can be: with it, and with what UCX adds, an empty call fits a line of its shared
/// memory. Positions are those of the lane's streams, modulo 2^32, which is far more than a ring.
struct lane_header {
  std::uint32_t check = 0;    ///< from check_of(): what does not have the receiver's is dropped
  std::uint32_t lane = 0;     ///< from way_of()
  std::uint32_t position = 0; ///< of the first byte of data, or behind the last one
  std::uint32_t read = 0;     ///< of the stream that goes the other way
};

/// The receiver's key, from its card, and the lane's use.
[[nodiscard]] constexpr std::uint32_t check_of(std::uint64_t key, lane_number lane) noexcept {
  return static_cast<std::uint32_t>(key ^ key >> 32) + lane.use * 0x9e3779b1;
}
/// Who sends, whether he has opened the lane, and its place.
[[nodiscard]] constexpr std::uint32_t way_of(std::uint32_t from, bool is_opener,
                                             lane_number lane) noexcept {
  return from << 12 | lane.place << 1 | (is_opener ? 1U : 0U);
}
[[nodiscard]] constexpr std::uint32_t sender_in(std::uint32_t way) noexcept { return way >> 12; }
[[nodiscard]] constexpr std::uint32_t place_in(std::uint32_t way) noexcept {
  return way >> 1 & (most_places - 1);
}
[[nodiscard]] constexpr bool is_opener_in(std::uint32_t way) noexcept { return (way & 1) != 0; }

/// The whole position, which is less than 2^31 from `near`.
[[nodiscard]] constexpr std::uint64_t whole_position(std::uint32_t low,
                                                     std::uint64_t near) noexcept {
  const std::uint32_t ahead = low - static_cast<std::uint32_t>(near);
  return near + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(ahead)});
}

struct open_header {
  std::uint64_t key = 0; ///< the receiver's
  std::uint32_t from = 0;
  lane_number lane;
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
};

static_assert(sizeof(lane_header) == 16 && sizeof(open_header) == 32);

/// False when `from` is not of that size.
template <class Header>
[[nodiscard]] bool read_header(std::span<const std::byte> from, Header& to) noexcept {
  if (from.size() != sizeof to) return false;
  std::memcpy(&to, from.data(), sizeof to);
  return true;
}

} // namespace farcall
