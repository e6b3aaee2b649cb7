#pragma once

#include <farcall/gpu/transport/system_scope.hpp>
#include <farcall/memory/record.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::am {

/// Where a reply's bytes lie is aligned to this.
inline constexpr std::size_t reply_alignment = 8;

/// Bytes of the longest text of an error; more is cut off.
inline constexpr std::uint32_t longest_device_text = 184;

/// Bytes of the longest reply that needs no memory beyond the team's.
inline constexpr std::uint32_t short_device_reply = 248;

/// A request on a device, as its handler gets it. One thread calls the handler, or all threads of
/// the team; the request lies in memory that they share, and one of them writes the reply.
struct device_request {
  const std::byte* arguments; ///< aligned to 16
  std::uint32_t bytes;
  std::uint32_t extra;
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

  // ---- instead of a reply
  bool is_unknown;          ///< there is no such handler
  std::uint32_t has_failed; ///< 1: the text is the reply
  std::uint32_t text_bytes;
  char text[longest_device_text];

  /// Replies with an error instead, at most `most` characters of it. Of several threads that fail,
  /// one has its text told.
  FARCALL_HOST_DEVICE void fail(const char* why,
                                std::uint32_t most = longest_device_text) noexcept {
    if (cuda::test_and_set(has_failed)) return;
    std::uint32_t count = 0;
#ifdef FARCALL_ON_GPU
#pragma unroll 1 // or the whole text would become code
#endif
    for (; count < most && count < longest_device_text && why[count] != '\0'; ++count)
      text[count] = why[count];
    text_bytes = count;
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
