#include "../src/compact_message.hpp"

#include <gtest/gtest.h>

namespace farcall::am2 {
namespace {

message make(message_kind kind, int arguments, const std::int32_t* values,
             category payload = category::short_message) {
  message m{message_header(kind, payload, 200, arguments)};
  m.header.tag = 0x0123456789abcdef;
  m.header.from = 15;
  m.header.to = 3;
  m.arguments = values;
  return m;
}

void expect_same(const message& m, int node) {
  const std::optional<compact_message> c = compact_message::of(m, node);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->node(), node);
  const message_header h = c->header(m.header.payload());
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

TEST(compact_message, says_all_that_a_header_says) {
  const std::int32_t value = -7;
  message request = make(message_kind::request, 1, &value);
  expect_same(request, 2047);
  request.header.ask_for_slots();
  expect_same(request, 0);
  expect_same(make(message_kind::request, 1, &value, category::medium), 2);
  for (const category c : {category::short_message, category::medium, category::long_message}) {
    message reply = make(message_kind::reply, 0, nullptr);
    reply.header.set_request_payload(c);
    credits one{};
    one[static_cast<std::size_t>(c)] = 1;
    reply.header.set_credits(one);
    expect_same(reply, 1);
  }
}

TEST(compact_message, is_not_for_what_has_more_to_say) {
  const std::int32_t values[2] = {1, 2};
  const message good = make(message_kind::request, 1, values);
  EXPECT_TRUE(compact_message::of(good, 0));
  EXPECT_FALSE(compact_message::of(good, 2048));
  EXPECT_FALSE(compact_message::of(good, -1));
  EXPECT_FALSE(compact_message::of(make(message_kind::request, 2, values), 0));
  EXPECT_FALSE(compact_message::of(make(message_kind::credit, 0, nullptr), 0));
  EXPECT_FALSE(compact_message::of(make(message_kind::returned_request, 3, nullptr), 0));
  message other = good;
  other.header.from = 16;
  EXPECT_FALSE(compact_message::of(other, 0));
  other = good;
  other.header.to = -1;
  EXPECT_FALSE(compact_message::of(other, 0));
  other = good;
  other.header.set_credits({1, 0, 0});
  EXPECT_FALSE(compact_message::of(other, 0));
  other = message{message_header(message_kind::request, category::long_message, 1, 0)};
  EXPECT_FALSE(compact_message::of(other, 0));
}

} // namespace
} // namespace farcall::am2
