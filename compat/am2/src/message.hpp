// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/packer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

/// Messages between endpoints, in the form that they have before they are packed into bytes.
namespace farcall::am2 {

inline constexpr int max_arguments = 16;

/// Name of an endpoint. A name is valid as long as the job, because numbers of endpoints are not
/// reused.
struct endpoint_name {
  std::int32_t node = -1;
  std::int32_t endpoint = -1;

  friend bool operator==(const endpoint_name&, const endpoint_name&) noexcept = default;
};

enum class message_kind : std::uint8_t {
  request = 0,
  reply = 1,
  get = 2,              ///< a request for a part of the segment, to which the library replies
  credit = 3,           ///< only gives slots back
  returned_request = 4, ///< a request that could not be delivered; arguments() is the status
  returned_reply = 5,
  job = 6,     ///< a message from one process to another, which involves no endpoints
  segment = 7, ///< a message with the address of the sender's segment_card
};

enum class category : std::uint8_t { short_message = 0, medium = 1, long_message = 2 };

/// Numbers of request slots, by category, that a message gives back.
using credits = std::array<std::uint32_t, 3>;

/// Fields that all messages have, in 24 bytes. They are the prefix of each message that is not
/// compact.
class message_header {
 public:
  std::uint64_t tag = 0;
  std::int32_t from = -1; ///< endpoint of the sender
  std::int32_t to = -1;   ///< endpoint of the receiver

  message_header() noexcept = default;
  message_header(message_kind kind, category c, std::uint8_t handler, int arguments) noexcept
      : bits_(std::uint64_t(kind) | std::uint64_t(c) << category_at |
              std::uint64_t(handler) << handler_at |
              (static_cast<std::uint64_t>(arguments) & 31U) << arguments_at) {}

  [[nodiscard]] message_kind kind() const noexcept { return message_kind(field(0, 3)); }
  [[nodiscard]] category payload() const noexcept { return category(field(category_at, 2)); }
  [[nodiscard]] std::uint8_t handler() const noexcept {
    return static_cast<std::uint8_t>(field(handler_at, 8));
  }
  /// Returns the number of arguments. For a returned message, returns the status instead.
  [[nodiscard]] int arguments() const noexcept { return static_cast<int>(field(arguments_at, 5)); }

  /// Returns the category of the request to which this message replies. Only for replies.
  [[nodiscard]] category request_payload() const noexcept { return category(field(request_at, 2)); }
  void set_request_payload(category c) noexcept { bits_ |= std::uint64_t(c) << request_at; }

  /// True if the receiver of this request must give back the slots that it owes as soon as the
  /// request has been handled.
  [[nodiscard]] bool asks_for_slots() const noexcept { return field(ask_at, 1) != 0; }
  void ask_for_slots() noexcept { bits_ |= std::uint64_t{1} << ask_at; }

  /// True if the receiver of this long message must send the address of its segment_card.
  [[nodiscard]] bool asks_for_segment() const noexcept { return field(ask_segment_at, 1) != 0; }
  void ask_for_segment() noexcept { bits_ |= std::uint64_t{1} << ask_segment_at; }

  /// Maximum number of slots of one category that a message can give back.
  static constexpr std::uint32_t max_credits = 4095;
  void set_credits(const credits& c) noexcept {
    bits_ |= std::uint64_t{c[0]} << credits_at | std::uint64_t{c[1]} << (credits_at + 12) |
             std::uint64_t{c[2]} << (credits_at + 24);
  }
  [[nodiscard]] bool has_credits() const noexcept { return bits_ >> credits_at != 0; }
  /// True if the message gives back exactly one slot, which has this category.
  [[nodiscard]] bool gives_one_back(category c) const noexcept {
    return bits_ >> credits_at == std::uint64_t{1} << 12 * static_cast<unsigned>(c);
  }
  void give_one_back(category c) noexcept {
    bits_ |= std::uint64_t{1} << (credits_at + 12 * static_cast<unsigned>(c));
  }
  [[nodiscard]] credits given_back() const noexcept {
    return {static_cast<std::uint32_t>(field(credits_at, 12)),
            static_cast<std::uint32_t>(field(credits_at + 12, 12)),
            static_cast<std::uint32_t>(field(credits_at + 24, 12))};
  }

 private:
  static constexpr unsigned category_at = 3;
  static constexpr unsigned request_at = 5;
  static constexpr unsigned ask_at = 7;
  static constexpr unsigned handler_at = 8;
  static constexpr unsigned arguments_at = 16;
  static constexpr unsigned ask_segment_at = 21;
  static constexpr unsigned credits_at = 24;

  [[nodiscard]] std::uint64_t field(unsigned at, unsigned bits) const noexcept {
    return bits_ >> at & ((std::uint64_t{1} << bits) - 1);
  }

  std::uint64_t bits_ = 0;
};
static_assert(sizeof(message_header) == 24);

/// Place where the payload of a long message is.
enum class payload_place : std::uint8_t {
  message = 0, ///< in the message
  segment = 1, ///< in the receiver's segment, into which the sender has copied it
  part = 2,    ///< in the message, which contains only a part of the long message
  parts = 3,   ///< in other messages, each with a part, which arrive before or after this message
};

/// A message. It has pointers to its arguments and its payload, which belong to the code that
/// creates the message.
struct message {
  message_header header;
  const std::int32_t* arguments = nullptr; ///< header.arguments() of them
  /// For a long message, offset in the receiver's segment. For a get request, offset in the segment
  /// of the node that replies.
  std::uint64_t offset = 0;
  const void* payload = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t get_offset = 0; ///< for a get request, offset in the requester's segment
  payload_place place = payload_place::message;
  std::uint64_t transfer = 0; ///< number that identifies a long message and its parts
  /// For a part, offset and length of the whole long message in the segment.
  std::uint64_t whole_offset = 0;
  std::uint64_t whole_bytes = 0;
};

/// Prefix of most messages: short and medium messages with at most one argument. A compact reply
/// gives back the slot of its request; a compact request gives back no slot. A record without a
/// payload has 32 bytes, so that two records fill a cache line.
struct compact_message {
  std::uint64_t tag;
  std::uint32_t bits;
  std::int32_t argument; ///< 0 if there is none

  /// Returns the bits that identify both endpoints; none if the endpoints' numbers do not fit.
  [[nodiscard]] static std::optional<std::uint32_t> route(std::int32_t from,
                                                          std::int32_t to) noexcept;
  /// Returns a request with `count` arguments, which is 0 or 1.
  [[nodiscard]] static compact_message request(category payload, std::uint64_t tag,
                                               std::uint32_t route, std::uint8_t handler, int count,
                                               std::int32_t argument, bool asks_for_slots) noexcept;
  /// Returns a reply, which gives back one slot of the request's category.
  [[nodiscard]] static compact_message reply(category payload, std::uint64_t tag,
                                             std::uint32_t route, std::uint8_t handler, int count,
                                             std::int32_t argument, category of_request) noexcept;
  /// Returns the compact form of a message; none if the message has no compact form.
  [[nodiscard]] static std::optional<compact_message> of(const message& m) noexcept;

  [[nodiscard]] category payload() const noexcept { return category(bits >> medium_at & 1U); }
  [[nodiscard]] std::uint8_t handler() const noexcept { return static_cast<std::uint8_t>(bits); }
  [[nodiscard]] bool is_reply() const noexcept { return (bits >> is_reply_at & 1U) != 0; }
  /// Returns the category of the request to which this message replies. Only for replies. A faulty
  /// peer may send the value 3, which is no category.
  [[nodiscard]] category request_payload() const noexcept {
    return category(bits >> request_at & 3U);
  }
  [[nodiscard]] bool asks_for_slots() const noexcept { return (bits >> ask_at & 1U) != 0; }
  [[nodiscard]] int arguments() const noexcept {
    return static_cast<int>(bits >> has_argument_at & 1U);
  }
  /// Return the number of the sender's endpoint and of the receiver's endpoint.
  [[nodiscard]] std::int32_t from() const noexcept { return endpoint_at(from_at); }
  [[nodiscard]] std::int32_t to() const noexcept { return endpoint_at(to_at); }
  [[nodiscard]] message_header header() const noexcept;
  /// Returns the same message in the form that is not compact, with the payload if it is a medium
  /// message. The result points to the argument in this object.
  [[nodiscard]] message whole(const void* payload = nullptr,
                              std::uint64_t bytes = 0) const noexcept;

 private:
  static constexpr unsigned is_reply_at = 8; ///< bits 0 to 7 are the number of the handler
  static constexpr unsigned request_at = 9;
  static constexpr unsigned ask_at = 11;
  static constexpr unsigned has_argument_at = 12;
  static constexpr unsigned medium_at = 13;
  static constexpr unsigned from_at = 14;
  static constexpr unsigned to_at = 23;
  static constexpr std::uint32_t endpoints = 1U << (to_at - from_at);

  [[nodiscard]] std::int32_t endpoint_at(unsigned at) const noexcept {
    return static_cast<std::int32_t>(bits >> at & (endpoints - 1));
  }
  [[nodiscard]] static std::uint32_t bits_of(category payload, std::uint32_t route,
                                             std::uint8_t handler, int count) noexcept {
    return route | handler | static_cast<std::uint32_t>(count) << has_argument_at |
           static_cast<std::uint32_t>(payload) << medium_at;
  }
};
static_assert(sizeof(compact_message) == 16);

inline std::optional<std::uint32_t> compact_message::route(std::int32_t from,
                                                           std::int32_t to) noexcept {
  if (static_cast<std::uint32_t>(from) >= endpoints || static_cast<std::uint32_t>(to) >= endpoints)
    return std::nullopt;
  return static_cast<std::uint32_t>(from) << from_at | static_cast<std::uint32_t>(to) << to_at;
}

inline compact_message compact_message::request(category payload, std::uint64_t tag,
                                                std::uint32_t route, std::uint8_t handler,
                                                int count, std::int32_t argument,
                                                bool asks_for_slots) noexcept {
  return {tag, bits_of(payload, route, handler, count) | std::uint32_t{asks_for_slots} << ask_at,
          argument};
}

inline compact_message compact_message::reply(category payload, std::uint64_t tag,
                                              std::uint32_t route, std::uint8_t handler, int count,
                                              std::int32_t argument, category of_request) noexcept {
  return {tag,
          bits_of(payload, route, handler, count) | 1U << is_reply_at |
              static_cast<std::uint32_t>(of_request) << request_at,
          argument};
}

inline std::optional<compact_message> compact_message::of(const message& m) noexcept {
  const message_header& h = m.header;
  const bool is_reply = h.kind() == message_kind::reply;
  if ((!is_reply && h.kind() != message_kind::request) || h.payload() == category::long_message ||
      h.arguments() > 1 || (is_reply ? !h.gives_one_back(h.request_payload()) : h.has_credits())) {
    return std::nullopt;
  }
  const auto way = route(h.from, h.to);
  if (!way) return std::nullopt;
  const bool has_one = h.arguments() == 1 && m.arguments != nullptr;
  const std::int32_t argument = has_one ? m.arguments[0] : 0;
  return is_reply ? reply(h.payload(), h.tag, *way, h.handler(), h.arguments(), argument,
                          h.request_payload())
                  : request(h.payload(), h.tag, *way, h.handler(), h.arguments(), argument,
                            h.asks_for_slots());
}

inline message_header compact_message::header() const noexcept {
  // Replace the value 3, which is no category, by a valid category. A faulty peer can send 3,
  // because the field has two bits.
  const category request =
      request_payload() > category::long_message ? category::short_message : request_payload();
  message_header h(is_reply() ? message_kind::reply : message_kind::request, payload(), handler(),
                   arguments());
  h.tag = tag;
  h.from = from();
  h.to = to();
  if (is_reply()) {
    h.set_request_payload(request);
    h.give_one_back(request);
  }
  if (asks_for_slots()) h.ask_for_slots();
  return h;
}

inline message compact_message::whole(const void* data, std::uint64_t bytes) const noexcept {
  message m{header()};
  m.arguments = &argument;
  if (payload() == category::medium) {
    m.payload = data;
    m.bytes = bytes;
  }
  return m;
}

} // namespace farcall::am2

// compact_message and message_header have a fixed layout, because they consist of integers of fixed
// sizes.
template <>
inline constexpr bool farcall::has_fixed_layout<farcall::am2::compact_message> = true;
template <>
inline constexpr bool farcall::has_fixed_layout<farcall::am2::message_header> = true;
