// SPDX-License-Identifier: Apache-2.0

// Tests of packed messages, and of the bytes from a faulty peer that unpack() accepts or refuses.
#include "../src/message_bytes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall::am2::test {
namespace {

constexpr auto no_category = category(3);
constexpr std::array categories{category::short_message, category::medium, category::long_message};
constexpr std::size_t longest = sizeof(long_part) + sizeof(message_arguments) + 64;

/// The message or the fault that unpack() finds in bytes that have arrived.
struct arrived {
  arrived(const message_header& h, std::span<const std::byte> from)
      : fault(unpack(h, from, m, arguments)) {}
  message m{};
  message_arguments arguments{};
  const char* fault;
};

/// A message that was packed and unpacked. Cannot be copied: `at_end->m` refers to `bytes`.
struct travelled {
  explicit travelled(const message& sent) : size(packed_bytes_of(sent)) {
    pack(sent, bytes.data());
    at_end.emplace(sent.header, std::span<const std::byte>(bytes).first(size));
  }
  travelled(const travelled&) = delete;
  travelled& operator=(const travelled&) = delete;
  alignas(16) std::array<std::byte, longest> bytes{};
  std::size_t size;
  std::optional<arrived> at_end;
};

bool is_short(message_kind k, category c, int arguments,
              std::array<std::int32_t, 4> values = {}, // three arguments are padded to four
              std::optional<category> of_request = std::nullopt) {
  message_header h(k, c, 7, arguments);
  if (of_request) h.set_request_payload(*of_request);
  const bool has_arguments = argument_bytes(h) != 0;
  const std::size_t words = arguments > 2 ? 4 : arguments > 0 ? 2 : 0;
  return arrived(h, std::as_bytes(std::span(values)).first(has_arguments ? 4 * words : 0)).fault ==
         nullptr;
}

struct sent {
  message_kind kind;
  category payload = category::long_message;
  int arguments = 2;
  payload_place place = payload_place::message;
  std::uint64_t bytes = 8;
  std::size_t sent_arguments = 2; ///< even
  std::size_t sent_bytes = 8;
};
bool is_record(const sent& s) {
  const message_header h(s.kind, s.payload, 7, s.arguments);
  alignas(16) std::array<std::byte, longest> bytes{};
  std::size_t size = 4 * s.sent_arguments + s.sent_bytes;
  if (has_long_part(h)) {
    const long_part part{0, 0, s.bytes, 0, 0, 0, s.place};
    std::memcpy(bytes.data(), &part, sizeof part);
    size += sizeof part;
  }
  return arrived(h, std::span<const std::byte>(bytes).first(size)).fault == nullptr;
}

TEST(am2_records, short_messages_have_no_payload) {
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    EXPECT_TRUE(is_short(k, category::short_message, 3));
    EXPECT_FALSE(is_short(k, category::short_message, 5)) << "more than there are";
    EXPECT_FALSE(is_short(k, category::short_message, 31)) << "more than a message has";
    EXPECT_FALSE(is_short(k, category::long_message, 1));
  }
  for (const category c : categories) {
    EXPECT_FALSE(is_short(message_kind::get, c, 2));
    EXPECT_TRUE(is_short(message_kind::returned_request, c, 10)) << "a status";
    EXPECT_TRUE(is_short(message_kind::returned_reply, c, 10));
  }
  EXPECT_FALSE(is_short(message_kind::job, category::short_message, 2));
  EXPECT_FALSE(is_short(message_kind::job, category::long_message, 2));
  EXPECT_TRUE(is_short(message_kind::credit, category::short_message, 0));
  EXPECT_FALSE(is_short(message_kind::credit, category::medium, 0));
}

TEST(am2_records, invalid_categories_are_refused) {
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

TEST(am2_records, segment_addresses_must_be_aligned) {
  EXPECT_TRUE(is_short(message_kind::segment, category::short_message, 2, {0x1238, 1}));
  for (const std::int32_t low : {0x1239, 0x123a, 0x123c})
    EXPECT_FALSE(is_short(message_kind::segment, category::short_message, 2, {low, 1})) << low;
  for (const int arguments : {0, 1, 3})
    EXPECT_FALSE(is_short(message_kind::segment, category::short_message, arguments));
  constexpr std::array<std::int32_t, 2> words{-8, 0x1234};
  EXPECT_EQ(card_address(words.data()), 0x1234fffffff8U);
}

TEST(am2_records, payloads_must_have_the_announced_length) {
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    EXPECT_TRUE(is_record({.kind = k}));
    EXPECT_TRUE(is_record({.kind = k, .payload = category::medium}));
    EXPECT_FALSE(is_record({.kind = k, .payload = category::short_message}));
    EXPECT_FALSE(is_record({.kind = k, .arguments = 4, .sent_bytes = 7}));
    EXPECT_FALSE(is_record({.kind = k, .arguments = 0}));
    EXPECT_FALSE(is_record({.kind = k, .sent_bytes = 7}));
    EXPECT_FALSE(is_record({.kind = k, .bytes = 7}));
  }
  for (const message_kind k : {message_kind::credit, message_kind::returned_request,
                               message_kind::returned_reply, message_kind::segment})
    EXPECT_FALSE(is_record({.kind = k}));
}

TEST(am2_records, only_longs_have_payloads_elsewhere) {
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    for (const payload_place at : {payload_place::segment, payload_place::parts}) {
      EXPECT_TRUE(is_record({.kind = k, .place = at, .sent_bytes = 0}));
      EXPECT_FALSE(is_record({.kind = k, .place = at})) << "they are here, too";
    }
    EXPECT_TRUE(is_record({.kind = k, .place = payload_place::part}));
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
  for (const int arguments : {0, 1, 3})
    EXPECT_FALSE(
        is_record({.kind = message_kind::job, .payload = category::medium, .arguments = arguments}))
        << arguments;
}

TEST(am2_records, truncated_messages_are_refused) {
  const std::array<std::int32_t, 3> values{1, 2, 3};
  const std::array<std::uint64_t, 2> payload{4, 5};
  for (const message_kind k : {message_kind::request, message_kind::reply}) {
    for (const category c : {category::short_message, category::long_message}) {
      message m{message_header(k, c, 7, 3)};
      m.arguments = values.data();
      if (c == category::long_message) {
        m.payload = payload.data();
        m.bytes = sizeof payload;
      }
      const travelled whole(m);
      EXPECT_EQ(whole.at_end->fault, nullptr);
      for (std::size_t size = 0; size < whole.size; ++size) {
        EXPECT_NE(arrived(m.header, std::span<const std::byte>(whole.bytes).first(size)).fault,
                  nullptr)
            << size;
      }
    }
  }
}

TEST(am2_records, keep_all_fields_of_a_message) {
  const std::array<std::int32_t, 16> values{1, -2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const std::string payload = "eleven char";
  for (const category c : categories) {
    for (const int count : {0, 1, 2, 7, 16}) {
      message m{message_header(message_kind::request, c, 200, count)};
      m.arguments = values.data();
      if (c != category::short_message) {
        m.payload = payload.data();
        m.bytes = payload.size();
      }
      if (c == category::long_message) {
        m.offset = 100;
        m.transfer = 5;
        m.whole_offset = 6;
        m.whole_bytes = 7;
        m.place = payload_place::part;
      }
      const travelled there(m);
      ASSERT_EQ(there.at_end->fault, nullptr);
      const message& got = there.at_end->m;
      EXPECT_EQ(got.header.handler(), 200);
      for (int i = 0; i < count; ++i)
        EXPECT_EQ(got.arguments[i], values.at(static_cast<std::size_t>(i)));
      ASSERT_EQ(got.bytes, m.bytes);
      EXPECT_EQ(got.offset, m.offset);
      EXPECT_EQ(got.transfer, m.transfer);
      EXPECT_EQ(got.whole_offset, m.whole_offset);
      EXPECT_EQ(got.whole_bytes, m.whole_bytes);
      EXPECT_EQ(got.place, m.place);
      if (c == category::short_message) continue;
      EXPECT_EQ(std::string(static_cast<const char*>(got.payload), got.bytes), payload);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.payload) % 8, 0U);
    }
  }
}

} // namespace
} // namespace farcall::am2::test
