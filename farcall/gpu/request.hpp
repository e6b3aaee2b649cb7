#pragma once

#include <farcall/memory/record.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::am {

/// Where a reply's bytes lie is aligned to this.
inline constexpr std::size_t reply_alignment = 8;

/// How a device has dealt with a request.
enum class device_outcome : std::uint32_t {
  replied,
  failed,  ///< the reply is a text
  unknown, ///< there is no such handler
};

/// Bytes of the longest reply that needs no memory beyond the team's.
inline constexpr std::uint32_t short_device_reply = 248;

/// A request on a device, as its handler gets it. One thread calls the handler, or all threads of
/// the team; the request lies in memory that they share, and one of them writes the reply.
struct device_request {
  const std::byte* arguments; ///< aligned to 16
  std::uint32_t bytes;
  std::uint32_t extra;
  device_outcome outcome;
  bool is_pure;   ///< the handler has written nothing but its reply
  bool is_by_all; ///< all threads of the team run the function, and not one alone
  std::uint32_t reply_bytes;
  std::uint32_t long_reply_room;
  // Both aligned to reply_alignment.
  std::byte* short_reply; ///< short_device_reply bytes fit
  std::byte* long_reply;  ///< for more

  /// Where a reply of `count` bytes goes; null when it is too long.
  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* reply_of(std::uint32_t count) noexcept {
    reply_bytes = count;
    if (count <= short_device_reply) return short_reply;
    return count <= long_reply_room ? long_reply : nullptr;
  }

  /// Replies with an error instead. The text is cut to what fits.
  FARCALL_HOST_DEVICE void fail(const char* text) noexcept {
    outcome = device_outcome::failed;
    reply_bytes = 0;
    while (reply_bytes < short_device_reply - 64 && text[reply_bytes] != '\0') {
      short_reply[reply_bytes] = static_cast<std::byte>(text[reply_bytes]);
      ++reply_bytes;
    }
  }
};

/// Code on a device that runs a request.
using device_handler = void (*)(device_request& request);

/// Set beside a handler's address in the table: all threads of the team call it. No address has it.
inline constexpr std::uint64_t called_by_all = std::uint64_t{1} << 63;

/// A device's handlers by key: addresses there, or one of these.
enum class device_code_address : std::uint64_t {
  none = 0,
  nothing = 1, ///< does nothing, and is replied to
  write = 2,   ///< arguments: address (8), count (8), bytes that go there
  read = 3,    ///< arguments: address (8), count (8); reply: a gap (8), count (8), bytes from there
  last = read,
};

} // namespace farcall::am
