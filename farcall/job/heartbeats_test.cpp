// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/heartbeats.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace farcall::heartbeats_test {
namespace {

using std::chrono::milliseconds;

const time_point begun{std::chrono::hours(1)};

heartbeats begin(milliseconds peer_timeout) {
  heartbeats all(peer_timeout);
  all.begin(begun);
  return all;
}

/// Counts heartbeats of the node until the node has been silent for too long.
unsigned questions_to(heartbeats& all, node_id node) {
  unsigned questions = 0;
  while (all.count(node))
    ++questions;
  return questions;
}

TEST(heartbeats, are_due_four_times_in_the_timeout) {
  heartbeats all = begin(milliseconds(400));
  EXPECT_EQ(all.next(), begun + milliseconds(100));
  EXPECT_FALSE(all.is_due(begun + milliseconds(99)));
  EXPECT_TRUE(all.is_due(begun + milliseconds(100)));
  EXPECT_FALSE(all.is_due(begun + milliseconds(199)));
  EXPECT_TRUE(all.is_due(begun + milliseconds(200)));
}

TEST(heartbeats, are_not_made_up_for_after_a_pause) {
  heartbeats all = begin(milliseconds(400));
  const time_point later = begun + std::chrono::seconds(60);
  EXPECT_TRUE(all.is_due(later));
  EXPECT_FALSE(all.is_due(later));
  EXPECT_EQ(all.next(), later + milliseconds(100));
}

TEST(heartbeats, are_at_least_a_millisecond_apart) {
  const heartbeats all = begin(milliseconds(1));
  EXPECT_EQ(all.next(), begun + milliseconds(1));
}

TEST(heartbeats, are_never_due_without_a_timeout) {
  heartbeats all = begin(milliseconds(0));
  EXPECT_EQ(all.next(), no_deadline);
  EXPECT_FALSE(all.is_due(begun + std::chrono::hours(1'000)));
}

TEST(heartbeats, a_node_may_miss_five_in_a_row) {
  heartbeats all = begin(milliseconds(400));
  EXPECT_EQ(questions_to(all, 7), 5U);
  EXPECT_FALSE(all.count(7));
}

TEST(heartbeats, a_message_begins_the_count_again) {
  heartbeats all = begin(milliseconds(400));
  all.note_message(7);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(all.count(7));
  all.note_message(7);
  EXPECT_EQ(questions_to(all, 7), 5U);
}

TEST(heartbeats, each_node_has_a_count_of_its_own) {
  heartbeats all = begin(milliseconds(400));
  EXPECT_EQ(questions_to(all, 3), 5U);
  all.note_message(4);
  EXPECT_FALSE(all.count(3));
  EXPECT_EQ(questions_to(all, 1), 5U);
}

TEST(heartbeats, a_later_node_begins_with_a_new_count) {
  heartbeats all = begin(milliseconds(400));
  EXPECT_EQ(questions_to(all, 3), 5U);
  all.note_message(successor_of(3));
  EXPECT_EQ(questions_to(all, successor_of(3)), 5U);
  all.note_message(3);
  EXPECT_FALSE(all.count(successor_of(3))) << "a late message of the former node";
}

} // namespace
} // namespace farcall::heartbeats_test
