// SPDX-License-Identifier: Apache-2.0

// Tests of long_parts: parts of longs that arrive in any order.
#include "../src/long_parts.hpp"

#include <gtest/gtest.h>

#include <am2.h>

namespace farcall::am2::test {
namespace {

message long_in_parts(std::uint64_t transfer, std::uint64_t bytes) {
  message m{message_header(message_kind::request, category::long_message, 7, 0)};
  m.bytes = bytes;
  m.place = payload_place::parts;
  m.transfer = transfer;
  return m;
}

TEST(long_parts, come_before_their_message) {
  long_parts parts;
  EXPECT_EQ(parts.add(1, 60, 0), nullptr);
  EXPECT_EQ(parts.add(1, 40, 0), nullptr);
  EXPECT_TRUE(parts.has_all(3, long_in_parts(1, 100)));
  EXPECT_EQ(parts.end(1), 0);
}

TEST(long_parts, come_behind_their_message) {
  long_parts parts;
  EXPECT_EQ(parts.add(1, 30, 0), nullptr);
  EXPECT_FALSE(parts.has_all(3, long_in_parts(1, 100)));
  EXPECT_EQ(parts.add(1, 69, 0), nullptr);
  const auto last = parts.add(1, 1, 0);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->node, 3);
  EXPECT_EQ(last->m.header.handler(), 7);
  EXPECT_TRUE(parts.has_all(3, last->m));
  EXPECT_EQ(parts.end(1), 0);
  EXPECT_EQ(parts.give_up_one(), nullptr);
}

TEST(long_parts, keep_why_one_was_refused) {
  long_parts parts;
  EXPECT_EQ(parts.add(1, 50, EBADTAG), nullptr);
  EXPECT_EQ(parts.add(1, 50, 0), nullptr);
  EXPECT_EQ(parts.add(2, 100, 0), nullptr);
  EXPECT_TRUE(parts.has_all(3, long_in_parts(2, 100)));
  EXPECT_EQ(parts.end(2), 0) << "another one's";
  EXPECT_TRUE(parts.has_all(3, long_in_parts(1, 100)));
  EXPECT_EQ(parts.end(1), EBADTAG);
  EXPECT_EQ(parts.end(1), 0) << "it is forgotten";
}

TEST(long_parts, give_up_waiting_messages) {
  long_parts parts;
  EXPECT_FALSE(parts.has_all(3, long_in_parts(1, 100)));
  EXPECT_FALSE(parts.has_all(4, long_in_parts(2, 100)));
  EXPECT_EQ(parts.add(3, 10, 0), nullptr);
  EXPECT_NE(parts.give_up_one(), nullptr);
  EXPECT_NE(parts.give_up_one(), nullptr);
  EXPECT_EQ(parts.give_up_one(), nullptr);
}

} // namespace
} // namespace farcall::am2::test
