// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/node_numbers.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace farcall::node_numbers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Gives the next numbers without a wait.
std::vector<node_id> give(node_numbers& from, std::size_t count = 1) {
  std::vector<node_id> numbers = from.next(count, clock::now());
  from.give(numbers.size());
  return numbers;
}

TEST(node_numbers, each_place_is_used_once_at_first) {
  node_numbers numbers(2, 5);
  EXPECT_THAT(give(numbers), ElementsAre(2U));
  numbers.note_ended(2);
  EXPECT_THAT(give(numbers, 2), ElementsAre(3U, 4U));
}

TEST(node_numbers, numbers_stay_the_next_ones_until_given) {
  node_numbers numbers(2, 4);
  EXPECT_THAT(numbers.next(2, clock::now()), ElementsAre(2U, 3U));
  EXPECT_THAT(numbers.next(1, clock::now()), ElementsAre(2U));
  EXPECT_EQ(numbers.taken(), 2U);
}

TEST(node_numbers, the_longest_free_place_is_given_with_another_epoch) {
  node_numbers numbers(4, 4);
  EXPECT_THAT(give(numbers), IsEmpty());
  numbers.note_ended(3);
  numbers.note_ended(1);
  EXPECT_THAT(give(numbers), ElementsAre(successor_of(3)));
  numbers.note_ended(successor_of(3));
  EXPECT_THAT(give(numbers, 2), ElementsAre(successor_of(1), successor_of(successor_of(3))));
  EXPECT_THAT(give(numbers), IsEmpty());
  EXPECT_EQ(numbers.taken(), 4U);
}

TEST(node_numbers, unused_places_come_before_free_ones) {
  node_numbers numbers(2, 3);
  numbers.note_ended(1);
  EXPECT_THAT(give(numbers, 2), ElementsAre(2U, successor_of(1)));
}

TEST(node_numbers, an_end_counts_once_for_a_given_number) {
  node_numbers numbers(2, 2);
  numbers.note_ended(7);
  numbers.note_ended(host_id);
  numbers.note_ended(successor_of(1));
  EXPECT_THAT(give(numbers), IsEmpty());
  numbers.note_ended(1);
  EXPECT_THAT(give(numbers), ElementsAre(successor_of(1)));
  numbers.note_ended(1);
  EXPECT_THAT(give(numbers), IsEmpty()) << "the place of node 1 is taken by its successor";
}

TEST(node_numbers, a_place_is_not_given_after_its_last_epoch) {
  node_numbers numbers(2, 2);
  node_id node = 1;
  for (std::uint32_t epoch = 0; epoch < last_node_epoch; ++epoch) {
    numbers.note_ended(node);
    ASSERT_THAT(give(numbers), ElementsAre(successor_of(node)));
    node = successor_of(node);
  }
  EXPECT_EQ(epoch_of(node), last_node_epoch);
  numbers.note_ended(node);
  EXPECT_THAT(give(numbers), IsEmpty());
}

TEST(node_numbers, a_thread_waits_for_nodes_that_are_ending) {
  node_numbers numbers(3, 3);
  numbers.note_ending(2);
  EXPECT_THAT(numbers.next(1, clock::now()), IsEmpty());
  std::vector<node_id> found;
  std::thread waiting([&] { found = numbers.next(1, no_deadline); });
  numbers.note_ended(2);
  waiting.join();
  EXPECT_THAT(found, ElementsAre(successor_of(2)));
}

TEST(node_numbers, a_thread_waits_only_for_enough_ends) {
  node_numbers numbers(3, 3);
  numbers.note_ending(2);
  EXPECT_THAT(numbers.next(2, no_deadline), IsEmpty());
}

} // namespace
} // namespace farcall::node_numbers_test
