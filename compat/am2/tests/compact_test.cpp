// SPDX-License-Identifier: Apache-2.0

// Tests of compact_message, the prefix of most messages.
#include "../src/message.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace farcall::am2 {
namespace {

message make(message_kind kind, int arguments, const std::int32_t* values,
             category payload = category::short_message) {
  message m{message_header(kind, payload, 200, arguments)};
  m.header.tag = 0x0123456789abcdef;
  m.header.from = 511;
  m.header.to = 3;
  m.arguments = values;
  return m;
}

void expect_same(const message& m) {
  const std::optional<compact_message> c = compact_message::of(m);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->payload(), m.header.payload());
  const message_header h = c->header();
  EXPECT_EQ(h.tag, m.header.tag);
  EXPECT_EQ(h.from, m.header.from);
  EXPECT_EQ(h.to, m.header.to);
  EXPECT_EQ(h.kind(), m.header.kind());
  EXPECT_EQ(h.payload(), m.header.payload());
  EXPECT_EQ(h.handler(), m.header.handler());
  EXPECT_EQ(h.arguments(), m.header.arguments());
  EXPECT_EQ(h.request_payload(), m.header.request_payload());
  EXPECT_EQ(h.asks_for_slots(), m.header.asks_for_slots());
  EXPECT_EQ(h.given_back(), m.header.given_back());
  if (h.arguments() == 1) {
    EXPECT_EQ(c->argument, m.arguments[0]);
  }
}

TEST(compact_message, keeps_all_fields_of_a_header) {
  const std::int32_t value = -7;
  message request = make(message_kind::request, 1, &value);
  expect_same(request);
  request.header.ask_for_slots();
  expect_same(request);
  expect_same(make(message_kind::request, 1, &value, category::medium));
  for (const category c : {category::short_message, category::medium, category::long_message}) {
    message reply = make(message_kind::reply, 0, nullptr);
    reply.header.set_request_payload(c);
    credits one{};
    one[static_cast<std::size_t>(c)] = 1;
    reply.header.set_credits(one);
    expect_same(reply);
  }
}

TEST(compact_message, refuses_messages_with_more_fields) {
  const std::int32_t values[2] = {1, 2};
  const message good = make(message_kind::request, 1, values);
  EXPECT_TRUE(compact_message::of(good));
  EXPECT_FALSE(compact_message::of(make(message_kind::request, 2, values)));
  EXPECT_FALSE(compact_message::of(make(message_kind::credit, 0, nullptr)));
  EXPECT_FALSE(compact_message::of(make(message_kind::returned_request, 3, nullptr)));
  message other = good;
  other.header.from = 512;
  EXPECT_FALSE(compact_message::of(other));
  other = good;
  other.header.to = -1;
  EXPECT_FALSE(compact_message::of(other));
  other = good;
  other.header.set_credits({1, 0, 0});
  EXPECT_FALSE(compact_message::of(other));
  other = message{message_header(message_kind::request, category::long_message, 1, 0)};
  EXPECT_FALSE(compact_message::of(other));
}

} // namespace
} // namespace farcall::am2
