// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Headers of the messages about lanes that nodes send each other over a message network such as
/// UCX or MPI (message_lane.hpp). The bytes of a lane follow their header unencoded.
namespace farcall {

enum class lane_message : std::uint16_t {
  open = 1, ///< first message of a lane, which opens the lane; its header is an open_header
  bytes,    ///< carries bytes that the sender's user has committed
  credit,   ///< says up to which position the sender's user has read
  close,    ///< says that the opener's user is done and that all bytes were sent
  closed,   ///< says that the acceptor has given the lane back
};
inline constexpr std::uint16_t last_lane_message = 5;

/// Number of a lane between two nodes. `place` is the lane's index in the opener's table, and `use`
/// counts the earlier lanes at this place. By `use`, a receiver recognises late messages of such an
/// earlier lane.
struct lane_number {
  std::uint32_t place = 0;
  std::uint32_t use = 0;

  friend bool operator==(const lane_number&, const lane_number&) = default;
};
inline constexpr std::uint32_t max_places = 2048;
/// Exclusive upper bound of the numbers of nodes that have such lanes, because a word of a header
/// has 20 bits for the number. Numbers are higher only after a job has given each place 16 times.
inline constexpr std::uint32_t max_nodes = std::uint32_t{1} << 20;

/// Header of a lane's messages. The header is short, so that an empty call fits one cache line of
/// UCX's shared memory together with this header and UCX's own. Positions in the lane's byte
/// streams are stored modulo 2^32. That is unambiguous, because a ring is far smaller than 2^32
/// bytes.
struct lane_header {
  /// Check word, as check_of() computes it. The receiver drops messages with a wrong check word.
  std::uint32_t check = 0;
  std::uint32_t lane = 0; ///< sender, its role, and the lane's place, packed by way_of()
  /// Position of the message's first byte. If the message has no bytes, position of the byte that
  /// the sender will send next.
  std::uint32_t position = 0;
  /// Position up to which the sender has read the bytes of the other direction.
  std::uint32_t read = 0;
};

/// Returns the check word for a message about a lane. `key` is the key in the receiver's card. The
/// check word depends on the use count of the lane's place, so that late messages of earlier lanes
/// at this place fail the check.
[[nodiscard]] constexpr std::uint32_t check_of(std::uint64_t key, lane_number lane) noexcept {
  return static_cast<std::uint32_t>(key ^ key >> 32) + lane.use * 0x9e3779b1;
}
/// Packs three values into a word: the sender, whether the sender has opened the lane, and the
/// lane's place.
[[nodiscard]] constexpr std::uint32_t way_of(std::uint32_t from, bool is_opener,
                                             lane_number lane) noexcept {
  return from << 12 | lane.place << 1 | (is_opener ? 1U : 0U);
}
[[nodiscard]] constexpr std::uint32_t sender_in(std::uint32_t way) noexcept { return way >> 12; }
[[nodiscard]] constexpr std::uint32_t place_in(std::uint32_t way) noexcept {
  return way >> 1 & (max_places - 1);
}
[[nodiscard]] constexpr bool is_opener_in(std::uint32_t way) noexcept { return (way & 1) != 0; }

/// Restores a 64-bit position from its low 32 bits, `low`. Among all positions with these low bits,
/// returns the nearest to `near`.
[[nodiscard]] constexpr std::uint64_t whole_position(std::uint32_t low,
                                                     std::uint64_t near) noexcept {
  const std::uint32_t ahead = low - static_cast<std::uint32_t>(near);
  return near + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(ahead)});
}

struct open_header {
  std::uint64_t key = 0; ///< the receiver's key
  std::uint32_t from = 0;
  lane_number lane;
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
  std::uint32_t ring_bytes = 0;
};

static_assert(sizeof(lane_header) == 16 && sizeof(open_header) == 32);

/// Copies a header from the bytes `from`. Returns false if their number is not the header's size.
template <class Header>
[[nodiscard]] bool read_header(std::span<const std::byte> from, Header& to) noexcept {
  if (from.size() != sizeof to) return false;
  std::memcpy(&to, from.data(), sizeof to);
  return true;
}

} // namespace farcall
