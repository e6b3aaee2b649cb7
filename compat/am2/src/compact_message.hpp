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

  /// Nothing for a message that is none. `node` is the sender's.
  [[nodiscard]] static std::optional<compact_message> of(const message& m, int node) noexcept;

  [[nodiscard]] int node() const noexcept { return static_cast<int>(bits >> node_at); }
  [[nodiscard]] message_header header(category payload) const noexcept;

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

inline std::optional<compact_message> compact_message::of(const message& m, int node) noexcept {
  const message_header& h = m.header;
  const bool is_reply = h.kind() == message_kind::reply;
  if ((!is_reply && h.kind() != message_kind::request) || h.payload() == category::long_message ||
      h.arguments() > 1 || static_cast<std::uint32_t>(h.from) >= endpoints ||
      static_cast<std::uint32_t>(h.to) >= endpoints || static_cast<std::uint32_t>(node) >= nodes ||
      (is_reply ? !h.gives_one_back(h.request_payload()) : h.has_credits())) {
    return std::nullopt;
  }
  const std::uint32_t bits = h.handler() | std::uint32_t{is_reply} << is_reply_at |
                             static_cast<std::uint32_t>(h.request_payload()) << request_at |
                             std::uint32_t{h.asks_for_slots()} << ask_at |
                             static_cast<std::uint32_t>(h.arguments()) << has_argument_at |
                             static_cast<std::uint32_t>(h.from) << from_at |
                             static_cast<std::uint32_t>(h.to) << to_at |
                             static_cast<std::uint32_t>(node) << node_at;
  return compact_message{h.tag, bits, h.arguments() == 1 ? m.arguments[0] : 0};
}

inline message_header compact_message::header(category payload) const noexcept {
  const bool is_reply = (bits >> is_reply_at & 1U) != 0;
  // There is no fourth category.
  const std::uint32_t number = bits >> request_at & 3U;
  const auto request = static_cast<category>(number > 2 ? 0 : number);
  message_header h(is_reply ? message_kind::reply : message_kind::request, payload,
                   static_cast<std::uint8_t>(bits), static_cast<int>(bits >> has_argument_at & 1U));
  h.tag = tag;
  h.from = static_cast<std::int32_t>(bits >> from_at & (endpoints - 1));
  h.to = static_cast<std::int32_t>(bits >> to_at & (endpoints - 1));
  if (is_reply) {
    h.set_request_payload(request);
    h.give_one_back(request);
  }
  if ((bits >> ask_at & 1U) != 0) h.ask_for_slots();
  return h;
}

} // namespace farcall::am2
