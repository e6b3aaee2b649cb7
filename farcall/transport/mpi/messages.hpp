// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/lane_messages.hpp>
#include <farcall/transport/mpi/address.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// Messages between nodes over MPI. A message consists of a prefix and a header. In a message of a
/// lane, the lane's bytes follow the header. The bytes of a copy are a message of their own,
/// without a prefix and header, and with a tag of its own. The message that announces or requests
/// the copy names this tag in its header.
namespace farcall::mpi {

/// Kinds of messages. The messages of lanes have the numbers and the headers of lane_message.
enum class message : std::uint16_t {
  /// Announces a put, whose bytes are a message of their own (copy_header).
  put = last_lane_message + 1,
  done, ///< reply to a put, or refusal of a get (copy_header)
  /// Asks for the bytes of a get; the message with the bytes is the reply (copy_header).
  get,
};

struct prefix {
  std::uint16_t kind = 0;
  std::uint16_t header_bytes = 0;
};

enum class copy_status : std::uint32_t { done = 0, refused = 1 };

struct copy_header {
  std::uint64_t key = 0; ///< the receiver's key
  std::uint32_t from = 0;
  copy_status status = copy_status::done; ///< set in replies
  std::uint64_t id = 0;                   ///< chosen by the requester
  std::uint64_t address = 0;              ///< in the responder's memory
  std::uint32_t bytes = 0;
  std::uint32_t tag = 0; ///< tag of the bytes
};
static_assert(sizeof(copy_header) == 40);

/// Size of a message, with prefix, header and bytes. Most MPI libraries send up to 4 KiB eagerly
/// within a machine, that is, without waiting for the receiver.
inline constexpr std::size_t message_bytes = 3968;
inline constexpr std::size_t max_header = sizeof(copy_header);
inline constexpr std::size_t lane_bytes_in_message =
    message_bytes - sizeof(prefix) - sizeof(lane_header);

/// Kinds of tags for the bytes of copies: one kind for puts, one for replies to gets. Each kind has
/// so many tags that a process does not use a tag again while an earlier copy may still use it.
enum class copy_way : std::uint32_t { put = 0, get = 1 };
inline constexpr std::uint32_t copy_tags = 8192;
inline constexpr std::uint32_t first_copy_tag = max_tags;
static_assert(first_copy_tag + 2 * copy_tags - 1 <= 32767, "MPI promises no more");

[[nodiscard]] inline std::uint32_t next_tag(copy_way way) noexcept {
  static std::atomic<std::uint32_t> used{0};
  return first_copy_tag + static_cast<std::uint32_t>(way) * copy_tags +
         used.fetch_add(1, std::memory_order_relaxed) % copy_tags;
}
[[nodiscard]] constexpr bool is_copy_tag(std::uint32_t tag, copy_way way) noexcept {
  const std::uint32_t first = first_copy_tag + static_cast<std::uint32_t>(way) * copy_tags;
  return tag >= first && tag - first < copy_tags;
}

} // namespace farcall::mpi
