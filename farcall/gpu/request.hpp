// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/gpu/transport/system_scope.hpp>
#include <farcall/memory/record.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::am {

/// Alignment of the address at which a reply's bytes begin.
inline constexpr std::size_t reply_alignment = 8;

/// Maximum number of bytes of an error's text. A longer text is truncated.
inline constexpr std::uint32_t max_device_text = 184;

/// Maximum number of bytes of a reply that is written into the team's own memory. Longer replies
/// are written into a bounce buffer.
inline constexpr std::uint32_t short_device_reply = 248;

/// A request on a device, as its handler receives it. Either one thread of the team or all of its
/// threads call the handler. The request is in memory that all threads of the team share. One
/// thread writes the reply.
struct device_request {
  const std::byte* arguments; ///< aligned to 16
  std::uint32_t bytes;
  std::uint32_t extra;
  bool is_pure;   ///< true if the handler has written no memory except its reply
  bool is_by_all; ///< true if all threads of the team run the function
  std::uint32_t reply_bytes;
  std::uint32_t long_reply_space;
  // Aligned to reply_alignment, both.
  std::byte* short_reply; ///< has short_device_reply bytes
  std::byte* long_reply;  ///< for longer replies

  /// Returns the address at which a reply of `count` bytes is written. Returns null if the reply
  /// would be too long.
  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* reply_of(std::uint32_t count) noexcept {
    reply_bytes = count;
    if (count <= short_device_reply) return short_reply;
    return count <= long_reply_space ? long_reply : nullptr;
  }

  // ---- members for an error, which is sent instead of a reply
  bool is_unknown;          ///< true if the device has no handler for the request
  std::uint32_t has_failed; ///< 1 if the reply is an error text
  std::uint32_t text_bytes;
  char text[max_device_text];

  /// Makes the request's reply an error with the text `why`, of which at most `most` characters are
  /// sent. If several threads call fail() for a request, the text of the first call is sent.
  FARCALL_HOST_DEVICE void fail(const char* why, std::uint32_t most = max_device_text) noexcept {
    if (cuda::test_and_set(has_failed)) return;
    std::uint32_t count = 0;
#ifdef FARCALL_ON_GPU
// Don't unroll the loop, because the compiler would turn each character of a constant text into an
// instruction.
#pragma unroll 1
#endif
    for (; count < most && count < max_device_text && why[count] != '\0'; ++count)
      text[count] = why[count];
    text_bytes = count;
  }
};

/// Type of a device's code that runs a request.
using device_handler = void (*)(device_request& request);

/// Bit that is set in a table entry, in addition to the handler's address, if all threads of the
/// team call the handler. The bit is 0 in all addresses of handlers.
inline constexpr std::uint64_t called_by_all = std::uint64_t{1} << 63;

/// Special entries of a device's table of handlers. The other entries are addresses of code on the
/// device.
enum class device_code_address : std::uint64_t {
  none = 0,
  nothing = 1, ///< a request that has no effect, and gets a reply
  write = 2,   ///< request with an address (8 bytes), a count (8 bytes) and the bytes to write
  /// Request with an address and a count, 8 bytes each. Its reply has a gap of 8 bytes, the count
  /// in 8 bytes, and the bytes that were read.
  read = 3,
  last = read,
};

} // namespace farcall::am
