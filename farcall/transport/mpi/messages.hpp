#pragma once

#include <farcall/transport/lane_messages.hpp>
#include <farcall/transport/mpi/address.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// What nodes send each other over MPI. A message is a prefix, a header, and of lanes the bytes.
/// The bytes of a copy are a message of their own, with a tag of its own, which the header names.
namespace farcall::mpi {

/// Those of lanes have the numbers of lane_message, and their headers.
enum class message : std::uint16_t {
  put = last_lane_message + 1, ///< copy_header: its bytes are on their way
  done,                        ///< copy_header: the answer to a put, or no to a get
  get,                         ///< copy_header: the answer is the bytes
};

struct prefix {
  std::uint16_t kind = 0;
  std::uint16_t header_bytes = 0;
};

enum class copy_status : std::uint32_t { done = 0, refused = 1 };

struct copy_header {
  std::uint64_t key = 0; ///< the receiver's
  std::uint32_t from = 0;
  copy_status status = copy_status::done; ///< of an answer
  std::uint64_t id = 0;                   ///< chosen by who asks
  std::uint64_t address = 0;              ///< of who is asked
  std::uint32_t bytes = 0;
  std::uint32_t tag = 0; ///< of the bytes
};
static_assert(sizeof(copy_header) == 40);

/// Prefix, header and bytes. What MPI sends eagerly within a machine is mostly limited to 4 KiB; a
/// message that is sent so needs nobody who receives it now.
inline constexpr std::size_t message_bytes = 3968;
inline constexpr std::size_t most_header = sizeof(copy_header);
inline constexpr std::size_t lane_bytes_in_message =
    message_bytes - sizeof(prefix) - sizeof(lane_header);

/// Tags of the bytes of copies: those of puts, and of answers to gets. A process does not use one
/// again while another copy may still have it.
enum class copy_way : std::uint32_t { put = 0, get = 1 };
inline constexpr std::uint32_t copy_tags = 8192;
inline constexpr std::uint32_t first_copy_tag = most_tags;
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
