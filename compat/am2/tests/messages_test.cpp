// SPDX-License-Identifier: Apache-2.0

// Requests and replies of all categories, with 0 to 16 arguments, between two endpoints of a
// process and from an endpoint to itself.
#include "support.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

namespace farcall::am2::test {
namespace {

seen request_seen;
seen reply_seen;

enum : handler_t { on_request = 7, on_reply = 8 };
constexpr std::uintptr_t offset = 24;
constexpr std::size_t payload_bytes = 40;

std::int32_t value(std::size_t i) { return static_cast<std::int32_t>(1000 - 3001 * int(i)); }

template <std::size_t>
using int32_of = std::int32_t;

/// Call AM_Request1 and so on, with the arguments value(0), value(1) …
int request(ep_t ep, int to, amx_category_t c, void* payload, int count);
int reply(void* token, amx_category_t c, void* payload, int count);

#define CASE(M, ...)                                                                               \
  case M:                                                                                          \
    return c == amx_Short ? AM_Request##M(ep, to, on_request __VA_ARGS__)                          \
           : c == amx_Medium                                                                       \
               ? AM_RequestI##M(ep, to, on_request, payload, payload_bytes __VA_ARGS__)            \
               : AM_RequestXfer##M(ep, to, offset, on_request, payload, payload_bytes __VA_ARGS__)
#define REPLY_CASE(M, ...)                                                                         \
  case M:                                                                                          \
    return c == amx_Short ? AM_Reply##M(token, on_reply __VA_ARGS__)                               \
           : c == amx_Medium                                                                       \
               ? AM_ReplyI##M(token, on_reply, payload, payload_bytes __VA_ARGS__)                 \
               : AM_ReplyXfer##M(token, offset, on_reply, payload, payload_bytes __VA_ARGS__)
#define V0
#define V1 , value(0)
#define V2 V1, value(1)
#define V3 V2, value(2)
#define V4 V3, value(3)
#define V5 V4, value(4)
#define V6 V5, value(5)
#define V7 V6, value(6)
#define V8 V7, value(7)
#define V9 V8, value(8)
#define V10 V9, value(9)
#define V11 V10, value(10)
#define V12 V11, value(11)
#define V13 V12, value(12)
#define V14 V13, value(13)
#define V15 V14, value(14)
#define V16 V15, value(15)

int request(ep_t ep, int to, amx_category_t c, void* payload, int count) {
  switch (count) {
    CASE(0, V0);
    CASE(1, V1);
    CASE(2, V2);
    CASE(3, V3);
    CASE(4, V4);
    CASE(5, V5);
    CASE(6, V6);
    CASE(7, V7);
    CASE(8, V8);
    CASE(9, V9);
    CASE(10, V10);
    CASE(11, V11);
    CASE(12, V12);
    CASE(13, V13);
    CASE(14, V14);
    CASE(15, V15);
    CASE(16, V16);
  default:
    return -1;
  }
}
int reply(void* token, amx_category_t c, void* payload, int count) {
  switch (count) {
    REPLY_CASE(0, V0);
    REPLY_CASE(1, V1);
    REPLY_CASE(2, V2);
    REPLY_CASE(3, V3);
    REPLY_CASE(4, V4);
    REPLY_CASE(5, V5);
    REPLY_CASE(6, V6);
    REPLY_CASE(7, V7);
    REPLY_CASE(8, V8);
    REPLY_CASE(9, V9);
    REPLY_CASE(10, V10);
    REPLY_CASE(11, V11);
    REPLY_CASE(12, V12);
    REPLY_CASE(13, V13);
    REPLY_CASE(14, V14);
    REPLY_CASE(15, V15);
    REPLY_CASE(16, V16);
  default:
    return -1;
  }
}

amx_category_t reply_category = amx_Short;
std::vector<unsigned char> reply_payload;

void send_reply(void* token, std::size_t count) {
  std::vector<unsigned char> payload = reply_payload;
  EXPECT_EQ(reply(token, reply_category, payload.data(), static_cast<int>(count)), AM_OK);
  // After the call the program may overwrite the payload.
  std::fill(payload.begin(), payload.end(), 0xee);
}

template <class... A>
void short_request(void* token, A... a) {
  note(request_seen, token, nullptr, 0);
  request_seen.arguments = {a...};
  send_reply(token, sizeof...(A));
}
template <class... A>
void long_request(void* token, void* payload, std::size_t bytes, A... a) {
  note(request_seen, token, payload, bytes);
  request_seen.arguments = {a...};
  send_reply(token, sizeof...(A));
}
template <class... A>
void short_reply(void* token, A... a) {
  note(reply_seen, token, nullptr, 0);
  reply_seen.arguments = {a...};
}
template <class... A>
void long_reply(void* token, void* payload, std::size_t bytes, A... a) {
  note(reply_seen, token, payload, bytes);
  reply_seen.arguments = {a...};
}

template <std::size_t... I>
void set_handlers(ep_t ep, amx_category_t of_request, amx_category_t of_reply,
                  std::index_sequence<I...> /*count*/) {
  if (of_request == amx_Short) {
    AM_SetHandler(ep, on_request, (&short_request<int32_of<I>...>));
  } else {
    AM_SetHandler(ep, on_request, (&long_request<int32_of<I>...>));
  }
  if (of_reply == amx_Short) {
    AM_SetHandler(ep, on_reply, (&short_reply<int32_of<I>...>));
  } else {
    AM_SetHandler(ep, on_reply, (&long_reply<int32_of<I>...>));
  }
}

template <std::size_t Count = 0, class F>
void for_each_count(const F& f) {
  f(std::integral_constant<std::size_t, Count>());
  if constexpr (Count < 16) for_each_count<Count + 1>(f);
}

class messages : public two_endpoints {
 protected:
  void SetUp() override {
    two_endpoints::SetUp();
    ASSERT_EQ(AM_SetSeg(a_, a_segment_.data(), sizeof a_segment_), AM_OK);
    ASSERT_EQ(AM_SetSeg(b_, b_segment_.data(), sizeof b_segment_), AM_OK);
    reply_payload.resize(payload_bytes);
    std::iota(reply_payload.begin(), reply_payload.end(), 100);
  }

  /// Sends requests from a_ to `to`, at `index` of the table, and checks requests and replies.
  void exchange(ep_t to, int index, amx_category_t of_request, amx_category_t of_reply) {
    for_each_count([&](auto count) {
      constexpr std::size_t n = count;
      SCOPED_TRACE(std::to_string(n) + " arguments, categories " + std::to_string(of_request) +
                   " and " + std::to_string(of_reply));
      set_handlers(a_, of_request, of_reply, std::make_index_sequence<n>());
      set_handlers(b_, of_request, of_reply, std::make_index_sequence<n>());
      request_seen = {};
      reply_seen = {};
      reply_category = of_reply;
      std::vector<unsigned char> payload(payload_bytes);
      std::iota(payload.begin(), payload.end(), static_cast<unsigned char>(n));
      const std::vector<unsigned char> sent = payload;
      ASSERT_EQ(request(a_, index, of_request, payload.data(), static_cast<int>(n)), AM_OK);
      std::fill(payload.begin(), payload.end(), 0xdd);
      poll_both();
      ASSERT_EQ(request_seen.calls, 1);
      ASSERT_EQ(reply_seen.calls, 1);
      std::vector<std::int32_t> values(n);
      for (std::size_t i = 0; i < n; ++i)
        values[i] = value(i);
      EXPECT_EQ(request_seen.arguments, values);
      EXPECT_EQ(reply_seen.arguments, values);
      check(request_seen, of_request, sent, to, a_name_, on_request, 1);
      check(reply_seen, of_reply, reply_payload, a_, index == 0 ? a_name_ : b_name_, on_reply, 0);
      EXPECT_EQ(request_seen.source_id, 0);
      EXPECT_EQ(reply_seen.source_id, index);
    });
  }

  void check(const seen& s, amx_category_t c, const std::vector<unsigned char>& payload, ep_t at,
             en_t from, handler_t handler, int is_request) {
    EXPECT_EQ(s.payload, c == amx_Short ? std::vector<unsigned char>() : payload);
    EXPECT_EQ(s.category, c);
    EXPECT_EQ(s.destination, at);
    EXPECT_EQ(s.tag, at == a_ ? a_tag : b_tag);
    EXPECT_TRUE(AMX_enEqual(s.source, from));
    EXPECT_EQ(s.handler, handler);
    EXPECT_EQ(s.is_request, is_request);
    if (c == amx_Long) {
      EXPECT_EQ(s.at, (at == a_ ? a_segment_ : b_segment_).data() + offset);
    } else if (c == amx_Medium) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s.at) % 8, 0U);
    }
  }

  std::array<unsigned char, 4096> a_segment_{};
  std::array<unsigned char, 4096> b_segment_{};
};

TEST_F(messages, have_any_number_of_arguments_in_any_category) {
  for (const auto of_request : {amx_Short, amx_Medium, amx_Long}) {
    for (const auto of_reply : {amx_Short, amx_Medium, amx_Long})
      exchange(b_, 1, of_request, of_reply);
  }
}

TEST_F(messages, to_the_sender_itself_have_any_number_of_arguments) {
  for (const auto of_request : {amx_Short, amx_Medium, amx_Long}) {
    for (const auto of_reply : {amx_Short, amx_Medium, amx_Long})
      exchange(a_, 0, of_request, of_reply);
  }
}

TEST_F(messages, to_the_sender_itself_run_before_the_call_returns) {
  set_handlers(a_, amx_Short, amx_Short, std::make_index_sequence<1>());
  request_seen = {};
  reply_seen = {};
  reply_category = amx_Short;
  ASSERT_EQ(AM_Request1(a_, 0, on_request, 1000), AM_OK);
  EXPECT_EQ(request_seen.calls, 1);
  EXPECT_EQ(reply_seen.calls, 1);
}

TEST_F(messages, may_have_the_same_memory_at_both_ends) {
  set_handlers(a_, amx_Long, amx_Short, std::make_index_sequence<0>());
  request_seen = {};
  reply_category = amx_Short;
  std::iota(a_segment_.begin(), a_segment_.end(), 0);
  ASSERT_EQ(AM_RequestXfer0(a_, 0, 8, on_request, a_segment_.data(), 64), AM_OK);
  ASSERT_EQ(request_seen.calls, 1);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(a_segment_[8 + i], i);
}

TEST_F(messages, may_have_no_payload_without_a_segment) {
  ASSERT_EQ(AM_SetSeg(b_, nullptr, 0), AM_OK);
  for (const auto c : {amx_Medium, amx_Long}) {
    set_handlers(b_, c, amx_Short, std::make_index_sequence<0>());
    set_handlers(a_, c, amx_Short, std::make_index_sequence<0>());
    request_seen = {};
    reply_category = amx_Short;
    ASSERT_EQ(c == amx_Medium ? AM_RequestI0(a_, 1, on_request, nullptr, 0)
                              : AM_RequestXfer0(a_, 1, 1 << 20, on_request, nullptr, 0),
              AM_OK);
    poll_both();
    EXPECT_EQ(request_seen.calls, 1);
    EXPECT_TRUE(request_seen.payload.empty());
  }
}

TEST_F(messages, convert_their_arguments) {
  set_handlers(b_, amx_Short, amx_Short, std::make_index_sequence<4>());
  set_handlers(a_, amx_Short, amx_Short, std::make_index_sequence<4>());
  request_seen = {};
  reply_category = amx_Short;
  const char small = -3;
  ASSERT_EQ(AM_Request4(a_, 1, on_request, 0x700000005L, 2.75, small, std::uint16_t{65535}), AM_OK);
  poll_both();
  EXPECT_EQ(request_seen.arguments, (std::vector<std::int32_t>{5, 2, -3, 65535}));
}

TEST_F(messages, longer_than_the_limits_arrive) {
  const std::size_t bytes = static_cast<std::size_t>(AM_MaxMedium()) + 12345;
  std::vector<unsigned char> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    payload[i] = static_cast<unsigned char>(i * 7);
  std::vector<unsigned char> segment(bytes);
  AM_SetSeg(b_, segment.data(), bytes);
  reply_category = amx_Short;
  for (const auto c : {amx_Medium, amx_Long}) {
    set_handlers(b_, c, amx_Short, std::make_index_sequence<0>());
    set_handlers(a_, c, amx_Short, std::make_index_sequence<0>());
    request_seen = {};
    ASSERT_EQ(c == amx_Medium ? AM_RequestI0(a_, 1, on_request, payload.data(), bytes)
                              : AM_RequestXfer0(a_, 1, 0, on_request, payload.data(), bytes),
              AM_OK);
    poll_both();
    EXPECT_EQ(request_seen.payload, payload);
  }
}

// ---- gets --------------------------------------------------------------------------------------

TEST_F(messages, get_what_is_in_the_other_segment) {
  for (const int from : {0, 1}) {
    set_handlers(a_, amx_Long, amx_Long, std::make_index_sequence<2>());
    std::iota(b_segment_.begin(), b_segment_.end(), 1);
    std::iota(a_segment_.begin(), a_segment_.end(), 1);
    reply_seen = {};
    ASSERT_EQ(AM_GetXfer2(a_, from, 16, on_reply, 2000, 300, 11, 12), AM_OK);
    poll_both();
    ASSERT_EQ(reply_seen.calls, 1);
    EXPECT_EQ(reply_seen.arguments, (std::vector<std::int32_t>{11, 12}));
    EXPECT_EQ(reply_seen.is_request, 0);
    EXPECT_EQ(reply_seen.source_id, from);
    EXPECT_EQ(reply_seen.at, a_segment_.data() + 2000);
    ASSERT_EQ(reply_seen.payload.size(), 300U);
    for (std::size_t i = 0; i < 300; ++i)
      ASSERT_EQ(reply_seen.payload[i], static_cast<unsigned char>(17 + i));
  }
}

} // namespace
} // namespace farcall::am2::test
