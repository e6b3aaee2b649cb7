// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "endpoint.hpp"
#include "message.hpp"

#include <farcall/base/bytes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Bytes that follow the message_header in a message between processes of a job. They consist of a
/// long_part (only in a long message or a get request), the arguments, and the payload. Arguments
/// and payload are aligned to 8. unpack() checks the bytes, because a faulty peer may send
/// anything.
namespace farcall::am2 {

/// Fields that only long messages and gets have.
struct long_part {
  std::uint64_t offset;
  std::uint64_t get_offset;
  std::uint64_t bytes;
  std::uint64_t transfer;
  std::uint64_t whole_offset;
  std::uint64_t whole_bytes;
  payload_place place;
};

using message_arguments = std::array<std::int32_t, max_arguments>;

/// True if the payload is sent inside the message.
inline bool is_with_message(message_kind kind, payload_place place) noexcept {
  return kind != message_kind::get &&
         (place == payload_place::message || place == payload_place::part);
}

/// True if a message with this header has a long_part.
inline bool has_long_part(const message_header& h) noexcept {
  return h.kind() <= message_kind::get && h.payload() == category::long_message;
}

/// Returns the size of the packed arguments. It is 0 for a returned message, which has a status
/// instead of arguments.
inline std::size_t argument_bytes(const message_header& h) noexcept {
  const bool has_arguments = h.kind() <= message_kind::get || h.kind() == message_kind::segment ||
                             h.kind() == message_kind::job;
  if (!has_arguments) return 0;
  return align_up(sizeof(std::int32_t) * static_cast<std::size_t>(h.arguments()), std::size_t{8});
}

/// Returns the address that a message of the kind message_kind::segment carries in its two
/// arguments.
inline std::uint64_t card_address(const std::int32_t* arguments) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(arguments[0])} |
         std::uint64_t{static_cast<std::uint32_t>(arguments[1])} << 32;
}

/// Returns the number of bytes that pack() writes for this message.
inline std::size_t packed_bytes_of(const message& m) noexcept {
  const bool has_payload = m.payload != nullptr && is_with_message(m.header.kind(), m.place);
  return (has_long_part(m.header) ? sizeof(long_part) : 0) + argument_bytes(m.header) +
         (has_payload ? m.bytes : 0);
}

/// Writes the bytes of the message that follow the header.
inline void pack(const message& m, std::byte* to) noexcept {
  if (has_long_part(m.header)) {
    const long_part part{m.offset,       m.get_offset,  m.bytes, m.transfer,
                         m.whole_offset, m.whole_bytes, m.place};
    std::memcpy(to, &part, sizeof part);
    to += sizeof part;
  }
  if (const std::size_t bytes = argument_bytes(m.header); bytes != 0) {
    std::memset(to + bytes - 8, 0, 8);
    std::memcpy(to, m.arguments,
                sizeof(std::int32_t) * static_cast<std::size_t>(m.header.arguments()));
    to += bytes;
  }
  if (m.payload != nullptr && m.bytes != 0 && is_with_message(m.header.kind(), m.place))
    std::memcpy(to, m.payload, m.bytes);
}

/// Checks a message after its fields have been read; its payload has `bytes` bytes. Returns the
/// fault of the message; null if it has none.
inline const char* find_fault(const message& m, std::size_t bytes) noexcept {
  const message_header& h = m.header;
  const bool is_long = h.payload() == category::long_message;
  switch (h.kind()) {
  case message_kind::request:
  case message_kind::reply:
    if (h.payload() == category::short_message && bytes != 0)
      return "a short message has no payload";
    if (m.place > payload_place::parts) return "its payload has no known place";
    return !is_long || bytes == (is_with_message(h.kind(), m.place) ? m.bytes : 0)
               ? nullptr
               : "its payload has another length than it says";
  case message_kind::get:
    if (!is_long || m.place != payload_place::message) return "a get is long";
    return bytes == 0 ? nullptr : "a get has no payload";
  case message_kind::job:
    return h.payload() == category::medium && h.arguments() == 2
               ? nullptr
               : "messages between processes are mediums with two arguments";
  case message_kind::segment:
    if (h.arguments() != 2) return "its address is incomplete";
    if (card_address(m.arguments) % alignof(segment_card) != 0) return "its address is misaligned";
    break;
  case message_kind::credit:
    if (h.payload() != category::short_message) return "it has no payload";
    break;
  case message_kind::returned_request:
  case message_kind::returned_reply:
    break;
  }
  return bytes == 0 ? nullptr : "messages of its kind have no payload";
}

/// Reads a message that has the header `h` and consists of these bytes. The result `m` points to
/// the bytes and to `arguments`. Returns the fault of the message; null if it has none.
inline const char* unpack(const message_header& h, std::span<const std::byte> from, message& m,
                          message_arguments& arguments) noexcept {
  m.header = h;
  if (h.payload() > category::long_message) return "it is neither short nor medium nor long";
  if (h.kind() == message_kind::reply && h.request_payload() > category::long_message)
    return "it replies to a request that is neither short nor medium nor long";
  if (has_long_part(h)) {
    long_part part{};
    if (from.size() < sizeof part) return "it is shorter than it says";
    std::memcpy(&part, from.data(), sizeof part);
    from = from.subspan(sizeof part);
    m.offset = part.offset;
    m.get_offset = part.get_offset;
    m.bytes = part.bytes;
    m.transfer = part.transfer;
    m.whole_offset = part.whole_offset;
    m.whole_bytes = part.whole_bytes;
    m.place = part.place;
  } else {
    m.bytes = 0;
  }
  if (const std::size_t bytes = argument_bytes(h); bytes != 0) {
    if (bytes > from.size() || bytes > sizeof arguments)
      return "it has fewer arguments than it says";
    std::memcpy(arguments.data(), from.data(), bytes);
    from = from.subspan(bytes);
    m.arguments = arguments.data();
  }
  if (const char* const fault = find_fault(m, from.size())) return fault;
  if (!has_long_part(h)) m.bytes = from.size();
  if (h.payload() != category::short_message && is_with_message(h.kind(), m.place))
    m.payload = from.data();
  return nullptr;
}

} // namespace farcall::am2
