#pragma once

#include "message.hpp"

#include <cstdint>
#include <optional>

namespace farcall::am2 {

/// What most messages are, but for a medium's payload: a short or medium one with one argument at
/// most, and no more slots given back than a reply gives. In 16 bytes: two records of such shorts
/// fill a cache line, and none lies in two. Which category it is the receiver knows.
struct compact_message {
  std::uint64_t tag;
  std::uint32_t bits;
  std::int32_t argument;

  /// The part of `bits` that says from where it goes and to where; nothing where that does not fit.
  [[nodiscard]] static std::optional<std::uint32_t> route(endpoint_name from,
                                                          std::int32_t to) noexcept;
  /// `count` arguments, at most one, which is 0 where there is none.
  [[nodiscard]] static compact_message request(std::uint64_t tag, std::uint32_t route,
                                               std::uint8_t handler, int count,
                                               std::int32_t argument, bool asks_for_slots) noexcept;
  /// It gives one slot back, of the request's category.
  [[nodiscard]] static compact_message reply(std::uint64_t tag, std::uint32_t route,
                                             std::uint8_t handler, int count, std::int32_t argument,
                                             category of_request) noexcept;
  /// Nothing for a message that is none. `node` is the sender's.
  [[nodiscard]] static std::optional<compact_message> of(const message& m, int node) noexcept;

  [[nodiscard]] int node() const noexcept { return static_cast<int>(bits >> node_at); }
  [[nodiscard]] std::uint8_t handler() const noexcept { return static_cast<std::uint8_t>(bits); }
  [[nodiscard]] bool is_reply() const noexcept { return (bits >> is_reply_at & 1U) != 0; }
  /// Of a reply: the request's category. Of a peer that is at fault: another number.
  [[nodiscard]] category request_payload() const noexcept {
    return category(bits >> request_at & 3U);
  }
  [[nodiscard]] bool asks_for_slots() const noexcept { return (bits >> ask_at & 1U) != 0; }
  [[nodiscard]] int arguments() const noexcept {
    return static_cast<int>(bits >> has_argument_at & 1U);
  }
  /// Endpoints, of the sender and of the receiver.
  [[nodiscard]] std::int32_t from() const noexcept {
    return static_cast<std::int32_t>(bits >> from_at & (endpoints - 1));
  }
  [[nodiscard]] std::int32_t to() const noexcept {
    return static_cast<std::int32_t>(bits >> to_at & (endpoints - 1));
  }
  [[nodiscard]] message_header header(category payload) const noexcept;
  /// The short message, or the medium one, that it says. It refers to this one's argument.
  [[nodiscard]] message whole() const noexcept {
    message m{header(category::short_message)};
    m.arguments = &argument;
    return m;
  }
  [[nodiscard]] message whole(const void* payload, std::uint64_t bytes) const noexcept {
    message m{header(category::medium)};
    m.arguments = &argument;
    m.payload = payload;
    m.bytes = bytes;
    return m;
  }

 private:
  static constexpr unsigned is_reply_at = 8; ///< the handler comes first
  static constexpr unsigned request_at = 9;
  static constexpr unsigned ask_at = 11;
  static constexpr unsigned has_argument_at = 12;
  static constexpr unsigned from_at = 13;
  static constexpr unsigned to_at = 17;
  static constexpr unsigned node_at = 21;
  static constexpr std::uint32_t endpoints = 1U << (to_at - from_at);
  static constexpr std::uint32_t nodes = 1U << (32 - node_at);
};
static_assert(sizeof(compact_message) == 16);

inline std::optional<std::uint32_t> compact_message::route(endpoint_name from,
                                                           std::int32_t to) noexcept {
  if (static_cast<std::uint32_t>(from.endpoint) >= endpoints ||
      static_cast<std::uint32_t>(to) >= endpoints ||
      static_cast<std::uint32_t>(from.node) >= nodes) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(from.endpoint) << from_at |
         static_cast<std::uint32_t>(to) << to_at | static_cast<std::uint32_t>(from.node) << node_at;
}

inline compact_message compact_message::request(std::uint64_t tag, std::uint32_t route,
                                                std::uint8_t handler, int count,
                                                std::int32_t argument,
                                                bool asks_for_slots) noexcept {
  return {tag,
          route | handler | std::uint32_t{asks_for_slots} << ask_at |
              static_cast<std::uint32_t>(count) << has_argument_at,
          argument};
}

inline compact_message compact_message::reply(std::uint64_t tag, std::uint32_t route,
                                              std::uint8_t handler, int count,
                                              std::int32_t argument, category of_request) noexcept {
  return {tag,
          route | handler | 1U << is_reply_at |
              static_cast<std::uint32_t>(of_request) << request_at |
              static_cast<std::uint32_t>(count) << has_argument_at,
          argument};
}

inline std::optional<compact_message> compact_message::of(const message& m, int node) noexcept {
  const message_header& h = m.header;
  const bool is_reply = h.kind() == message_kind::reply;
  if ((!is_reply && h.kind() != message_kind::request) || h.payload() == category::long_message ||
      h.arguments() > 1 || (is_reply ? !h.gives_one_back(h.request_payload()) : h.has_credits())) {
    return std::nullopt;
  }
  const auto way = route({node, h.from}, h.to);
  if (!way) return std::nullopt;
  const bool has_one = h.arguments() == 1 && m.arguments != nullptr;
  const std::int32_t argument = has_one ? m.arguments[0] : 0;
  return is_reply ? reply(h.tag, *way, h.handler(), h.arguments(), argument, h.request_payload())
                  : request(h.tag, *way, h.handler(), h.arguments(), argument, h.asks_for_slots());
}

inline message_header compact_message::header(category payload) const noexcept {
  // There is no fourth category.
  const category request =
      request_payload() > category::long_message ? category::short_message : request_payload();
  message_header h(is_reply() ? message_kind::reply : message_kind::request, payload, handler(),
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

} // namespace farcall::am2
