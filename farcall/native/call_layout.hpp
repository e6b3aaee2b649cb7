// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/native/signature.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// Layout of the payload of a native call, and of its reply. The payload begins with a word of 8
/// bytes for each argument: the value, or the size of a buffer, or no_buffer. The bytes of the
/// buffers that the function reads follow, each from a multiple of 16 on. The reply is a
/// reply_head, and the bytes of the buffers that the function writes, each from a multiple of 16
/// on.
namespace farcall::native {

/// Word of an argument that is a buffer without an address, for which the function gets null.
inline constexpr std::uint64_t no_buffer = ~std::uint64_t{0};

struct reply_head {
  std::uint64_t result;      ///< in the low bits
  std::int32_t error_number; ///< errno after the function; 0 if the function did not set it
  std::uint32_t reserved;
};

inline constexpr std::size_t word_bytes = sizeof(std::uint64_t);
inline constexpr std::size_t buffer_alignment = 16;

/// Returns true if the bytes of such an argument are sent with the call.
constexpr bool is_sent(passing way) noexcept {
  return way == passing::in || way == passing::in_out;
}
/// Returns true if the bytes of such an argument are sent with the reply.
constexpr bool is_returned(passing way) noexcept {
  return way == passing::out || way == passing::in_out;
}
/// Returns the number of bytes that a buffer takes in a payload. A zero is sent behind the bytes of
/// a text.
constexpr std::uint64_t sent_bytes(passing way, std::uint64_t size) noexcept {
  return way == passing::in ? size + 1 : size;
}

/// Positions of buffers in a payload or reply, one after the other.
class buffer_places {
 public:
  /// Begins behind `begin` bytes.
  explicit buffer_places(std::size_t begin) noexcept : end_(begin) {}

  /// Returns the position of the next buffer, which has this size.
  std::size_t next(std::uint64_t size) noexcept {
    const std::size_t at = align_up(end_, buffer_alignment);
    end_ = at + size;
    return at;
  }
  [[nodiscard]] std::size_t end() const noexcept { return end_; }

 private:
  std::size_t end_;
};

/// The words of a call's arguments.
using argument_words = std::array<std::uint64_t, signature::max_parameters>;

/// Copies the words from the beginning of a payload, because a faulty peer can change the bytes in
/// the payload. Throws malformed_message if the payload is too short.
void read_words(const signature& type, std::span<const std::byte> payload, argument_words& words);

/// Positions of the buffers of a call in its payload and reply.
struct call_layout {
  struct place {
    std::size_t sent;     ///< offset in the payload, if the argument is_sent()
    std::size_t returned; ///< offset in the reply, if the argument is_returned()
  };
  /// Place of each argument that is a buffer with an address. Other elements have any value.
  std::array<place, signature::max_parameters> places;
  std::size_t reply_bytes;
};

/// Computes the layout of a call with these words. Throws malformed_message if the size of the
/// payload is not the size that the words say.
void read_layout(const signature& type, const argument_words& words, std::size_t payload_bytes,
                 call_layout& layout);

/// Throws malformed_message with a text that names the signature.
[[noreturn]] void throw_other_arguments(const signature& type);

} // namespace farcall::native
