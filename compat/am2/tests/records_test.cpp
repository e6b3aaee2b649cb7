// What is taken for a message, of all that a peer at fault may send.
#include "../src/records.hpp"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <optional>

namespace farcall::am2::test {
namespace {

constexpr auto no_category = category(3);
constexpr std::array categories{category::short_message, category::medium, category::long_message};

bool is_short(message_kind k, category c, int arguments, std::array<std::int32_t, 3> values = {},
              std::optional<category> of_request = std::nullopt) {
  message_header h(k, c, 7, arguments);
  if (of_request) h.set_request_payload(*of_request);
  return find_fault(h, values) == nullptr;
}

struct sent {
  message_kind kind;
  category payload = category::long_message;
  int arguments = 2;
  payload_place place = payload_place::message;
  std::uint64_t bytes = 8;
  std::size_t sent_arguments = 2;
  std::size_t sent_bytes = 8;
};
bool is_record(const sent& s) {
  record_head r{
      message_header(s.kind, s.payload, 7, s.arguments), 1, s.place, 0, 0, s.bytes, 0, 0, 0};
  return find_fault(r, s.sent_arguments, s.sent_bytes) == nullptr;
}

TEST(am2_records, short_messages_are_those_that_are_sent_without_a_payload) {
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    EXPECT_TRUE(is_short(k, category::short_message, 3));
    EXPECT_FALSE(is_short(k, category::short_message, 4)) << "more than there are";
    EXPECT_FALSE(is_short(k, category::medium, 1));
    EXPECT_FALSE(is_short(k, category::long_message, 1));
  }
  for (const category c : categories) {
    EXPECT_FALSE(is_short(message_kind::get, c, 2));
    EXPECT_FALSE(is_short(message_kind::job, c, 2));
    EXPECT_TRUE(is_short(message_kind::returned_request, c, 10)) << "a status";
    EXPECT_TRUE(is_short(message_kind::returned_reply, c, 10));
  }
  EXPECT_TRUE(is_short(message_kind::credit, category::short_message, 0));
}

TEST(am2_records, a_category_that_is_none_makes_no_message) {
  for (int kind = 0; kind < 8; ++kind) {
    const auto k = message_kind(kind);
    EXPECT_FALSE(is_short(k, no_category, 2)) << kind;
    EXPECT_FALSE(is_record({.kind = k, .payload = no_category})) << kind;
    EXPECT_FALSE(is_record({.kind = k, .payload = no_category, .bytes = 0, .sent_bytes = 0}))
        << kind;
  }
  EXPECT_FALSE(is_short(message_kind::reply, category::short_message, 1, {}, no_category));
  EXPECT_TRUE(is_short(message_kind::reply, category::short_message, 1, {}, category::medium));
}

TEST(am2_records, a_segment_is_where_a_card_can_be) {
  EXPECT_TRUE(is_short(message_kind::segment, category::short_message, 2, {0x1238, 1}));
  for (const std::int32_t low : {0x1239, 0x123a, 0x123c})
    EXPECT_FALSE(is_short(message_kind::segment, category::short_message, 2, {low, 1})) << low;
  for (const int arguments : {0, 1, 3})
    EXPECT_FALSE(is_short(message_kind::segment, category::short_message, arguments));
  constexpr std::array<std::int32_t, 2> words{-8, 0x1234};
  EXPECT_EQ(card_address(words.data()), 0x1234fffffff8U);
}

TEST(am2_records, other_messages_have_what_they_say) {
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    EXPECT_TRUE(is_record({.kind = k}));
    EXPECT_TRUE(is_record({.kind = k, .payload = category::medium}));
    EXPECT_FALSE(is_record({.kind = k, .payload = category::short_message}));
    EXPECT_FALSE(is_record({.kind = k, .arguments = 1}));
    EXPECT_FALSE(is_record({.kind = k, .sent_bytes = 7}));
    EXPECT_FALSE(is_record({.kind = k, .bytes = 7}));
  }
  for (const message_kind k : {message_kind::credit, message_kind::returned_request,
                               message_kind::returned_reply, message_kind::segment})
    EXPECT_FALSE(is_record({.kind = k}));
}

TEST(am2_records, payloads_of_longs_only_are_elsewhere) {
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    for (const payload_place at : {payload_place::segment, payload_place::parts}) {
      EXPECT_TRUE(is_record({.kind = k, .place = at, .sent_bytes = 0}));
      EXPECT_FALSE(is_record({.kind = k, .place = at})) << "they are here, too";
      EXPECT_FALSE(
          is_record({.kind = k, .payload = category::medium, .place = at, .sent_bytes = 0}));
    }
    EXPECT_TRUE(is_record({.kind = k, .place = payload_place::part}));
    EXPECT_FALSE(is_record({.kind = k, .payload = category::medium, .place = payload_place::part}));
    for (const int at : {4, 5, 255})
      EXPECT_FALSE(is_record({.kind = k, .place = payload_place(at), .sent_bytes = 0})) << at;
  }
}

TEST(am2_records, gets_are_long_and_have_no_payload) {
  EXPECT_TRUE(is_record({.kind = message_kind::get, .sent_bytes = 0}));
  EXPECT_FALSE(is_record({.kind = message_kind::get}));
  EXPECT_FALSE(
      is_record({.kind = message_kind::get, .place = payload_place::segment, .sent_bytes = 0}));
  for (const category c : {category::short_message, category::medium})
    EXPECT_FALSE(is_record({.kind = message_kind::get, .payload = c, .sent_bytes = 0}));
}

TEST(am2_records, messages_between_processes_have_two_arguments_and_their_payload) {
  EXPECT_TRUE(is_record({.kind = message_kind::job, .payload = category::medium}));
  EXPECT_FALSE(is_record({.kind = message_kind::job}));
  EXPECT_FALSE(is_record({.kind = message_kind::job,
                          .payload = category::medium,
                          .arguments = 1,
                          .sent_arguments = 1}));
  EXPECT_FALSE(is_record({.kind = message_kind::job,
                          .payload = category::medium,
                          .place = payload_place::segment,
                          .bytes = std::uint64_t{1} << 40,
                          .sent_bytes = 0}));
}

} // namespace
} // namespace farcall::am2::test
