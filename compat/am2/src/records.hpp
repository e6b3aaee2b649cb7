#pragma once

#include "endpoint.hpp"
#include "message.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// What carries a message between processes of a job, and whether what has come is a message. Of a
/// peer that is at fault all bits may have any value.
namespace farcall::am2 {

/// A message without a payload, with room for N arguments: what most messages are, so it has no
/// length to be read.
template <std::size_t N>
struct short_record {
  message_header header;
  std::int32_t node;
  std::array<std::int32_t, N> arguments;
};

/// What stands before arguments and payload of the others.
struct record_head {
  message_header header;
  std::int32_t node;
  payload_place place;
  std::uint64_t offset;
  std::uint64_t get_offset;
  std::uint64_t bytes;
  std::uint64_t transfer;
  std::uint64_t whole_offset;
  std::uint64_t whole_bytes;
};

/// Whether the payload goes with the message.
inline bool is_with_message(message_kind kind, payload_place place) noexcept {
  return kind != message_kind::get &&
         (place == payload_place::message || place == payload_place::part);
}

/// Whether its number of arguments is one.
inline bool has_arguments(const message_header& h) noexcept {
  return h.kind() <= message_kind::get || h.kind() == message_kind::segment;
}

/// The number that a message_kind::segment has as its arguments.
inline std::uint64_t card_address(const std::int32_t* arguments) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(arguments[0])} |
         std::uint64_t{static_cast<std::uint32_t>(arguments[1])} << 32;
}

/// What is wrong in all kinds; null for nothing.
inline const char* find_fault(const message_header& h) noexcept {
  if (h.payload() > category::long_message) return "it is neither short nor medium nor long";
  if (h.kind() == message_kind::reply && h.request_payload() > category::long_message)
    return "it replies to what is neither short nor medium nor long";
  return nullptr;
}

/// What is wrong with a short_record that has come, with room for `room` arguments; null for
/// nothing.
inline const char* find_fault(const message_header& h,
                              std::span<const std::int32_t> room) noexcept {
  if (const char* const fault = find_fault(h)) return fault;
  if (has_arguments(h) && static_cast<std::size_t>(h.arguments()) > room.size())
    return "it has fewer arguments than it says";
  switch (h.kind()) {
  case message_kind::request:
  case message_kind::reply:
  case message_kind::credit:
    return h.payload() == category::short_message ? nullptr : "it has no payload";
  case message_kind::returned_request:
  case message_kind::returned_reply:
    return nullptr;
  case message_kind::segment:
    if (h.arguments() != 2 || room.size() < 2) return "its address is none";
    return card_address(room.data()) % alignof(segment_card) == 0 ? nullptr
                                                                  : "its address is misaligned";
  default:
    return "messages of its kind have a payload";
  }
}

/// What is wrong with a record that has come with so many arguments and bytes; null for nothing.
inline const char* find_fault(const record_head& r, std::size_t arguments,
                              std::size_t bytes) noexcept {
  const message_header& h = r.header;
  if (const char* const fault = find_fault(h)) return fault;
  if (static_cast<std::size_t>(h.arguments()) != arguments)
    return "it has another number of arguments than it says";
  if (r.place > payload_place::parts) return "its payload is nowhere";
  if (bytes != (is_with_message(h.kind(), r.place) ? r.bytes : 0))
    return "its payload has another length than it says";
  const bool is_long = h.payload() == category::long_message;
  switch (h.kind()) {
  case message_kind::request:
  case message_kind::reply:
    if (h.payload() == category::short_message) return "a short message has no payload";
    return is_long || r.place == payload_place::message ? nullptr
                                                        : "the payload of a medium goes with it";
  case message_kind::get:
    return is_long && r.place == payload_place::message ? nullptr : "a get is long";
  case message_kind::job:
    if (h.payload() != category::medium || arguments != 2)
      return "messages between processes are mediums with two arguments";
    return r.place == payload_place::message ? nullptr : "the payload of a medium goes with it";
  default:
    return "messages of its kind have no payload";
  }
}

} // namespace farcall::am2
