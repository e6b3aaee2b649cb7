// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/node_table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::node_table_test {
namespace {

using ::testing::ElementsAre;

TEST(node_table, finds_published_entries) {
  node_table<int> table(4);
  EXPECT_EQ(table.capacity(), 4U);
  EXPECT_EQ(table.find(3), nullptr);
  int* const made = table.publish(node_table<int>::make(3, 7));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(table.find(3), made);
  EXPECT_EQ(*made, 7);
}

TEST(node_table, the_first_entry_stays) {
  node_table<int> table(2);
  int* const first = table.publish(node_table<int>::make(1, 1));
  EXPECT_EQ(table.publish(node_table<int>::make(1, 2)), first);
  EXPECT_EQ(table.find_or_make(1), first);
  EXPECT_EQ(*first, 1);
}

TEST(node_table, finds_nothing_beyond_its_capacity) {
  node_table<int> table(2);
  EXPECT_EQ(table.find(2), nullptr);
  EXPECT_EQ(table.find(no_node), nullptr);
  EXPECT_EQ(table.publish(node_table<int>::make(2, 1)), nullptr);
  EXPECT_EQ(table.find_or_make(no_node), nullptr);
}

TEST(node_table, entries_move_with_it) {
  node_table<int> table(2);
  int* const made = table.find_or_make(1);
  const node_table<int> other = std::move(table);
  EXPECT_EQ(other.find(1), made);
  EXPECT_EQ(other.capacity(), 2U);
}

TEST(node_table, is_iterated_in_order) {
  node_table<int> table(8);
  for (const node_id node : {5U, 0U, 7U})
    table.publish(node_table<int>::make(node, static_cast<int>(node) * 10));
  std::vector<std::pair<node_id, int>> all;
  table.for_each([&](node_id node, int value) { all.emplace_back(node, value); });
  EXPECT_THAT(all, ElementsAre(std::pair{0U, 0}, std::pair{5U, 50}, std::pair{7U, 70}));
}

TEST(node_table, iteration_ends_behind_the_last_entry) {
  node_table<int> table(max_node_places);
  table.publish(node_table<int>::make(2, 2));
  node_table<int> other(1);
  std::swap(table, other);
  std::vector<node_id> all;
  other.for_each([&](node_id node, int /*value*/) { all.push_back(node); });
  table.for_each([&](node_id node, int /*value*/) { all.push_back(node); });
  EXPECT_THAT(all, ElementsAre(2U));
}

// ---- nodes that have had a place one after the other --------------------------------------------

TEST(node_table, finds_the_nodes_of_a_place_by_number) {
  node_table<int> table(4);
  const node_id first = 3;
  const node_id second = successor_of(first);
  const node_id third = successor_of(second);
  int* const of_first = table.publish(node_table<int>::make(first, 1));
  EXPECT_EQ(table.find(second), nullptr);
  int* const of_third = table.publish(node_table<int>::make(third, 3));
  EXPECT_EQ(table.find(first), of_first);
  EXPECT_EQ(table.find(second), nullptr) << "between two others";
  EXPECT_EQ(table.find(third), of_third);
  EXPECT_EQ(table.find(successor_of(third)), nullptr);
  int* const of_second = table.find_or_make(second);
  ASSERT_NE(of_second, nullptr);
  *of_second = 2;
  EXPECT_EQ(table.find(second), of_second);
  EXPECT_EQ(std::vector({*of_first, *of_second, *of_third}), std::vector({1, 2, 3}));
}

TEST(node_table, keeps_the_first_entry_of_a_former_node) {
  node_table<int> table(2);
  int* const first = table.publish(node_table<int>::make(1, 1));
  table.publish(node_table<int>::make(successor_of(1), 2));
  EXPECT_EQ(table.publish(node_table<int>::make(1, 7)), first);
  EXPECT_EQ(*first, 1);
}

TEST(node_table, is_iterated_over_the_latest_nodes) {
  node_table<int> table(4);
  for (const node_id node : {successor_of(2), 1U, 2U, successor_of(successor_of(3)), 3U})
    table.publish(node_table<int>::make(node, 0));
  std::vector<node_id> all;
  table.for_each([&](node_id node, int /*value*/) { all.push_back(node); });
  EXPECT_THAT(all, ElementsAre(1U, successor_of(2), successor_of(successor_of(3))));
  EXPECT_EQ(table.latest_at_place_of(3), all.back());
  EXPECT_EQ(table.latest_at_place_of(0), no_node);
  EXPECT_EQ(table.latest_at_place_of(no_node), no_node);
}

TEST(node_table, an_entry_of_the_last_place_is_a_node) {
  node_table<int> table(max_node_places);
  table.publish(node_table<int>::make(max_node_places - 1, 1));
  EXPECT_EQ(place_of(no_node), max_node_places - 1);
  EXPECT_EQ(table.find(no_node), nullptr);
}

TEST(node_table, threads_find_entries_while_places_are_given_again) {
  constexpr node_id epochs = 2000;
  node_table<node_id> table(2);
  table.publish(node_table<node_id>::make(1, 1U));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const node_id latest = table.latest_at_place_of(1);
        ASSERT_NE(table.find(latest), nullptr) << latest;
        ASSERT_EQ(*table.find(latest), latest);
        ASSERT_EQ(*table.find(1), 1U);
      }
    });
  }
  for (node_id epoch = 1; epoch < epochs; ++epoch) {
    const node_id node = 1 + epoch * max_node_places;
    table.publish(node_table<node_id>::make(node, node));
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& t : threads)
    t.join();
}

TEST(node_table, threads_that_make_the_same_entries_agree) {
  constexpr node_id nodes = 512;
  node_table<std::atomic<unsigned>> table(nodes);
  const auto add_one_to_each = [&] {
    for (node_id node = 0; node < nodes; ++node)
      table.find_or_make(node)->fetch_add(1, std::memory_order_relaxed);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(add_one_to_each);
  for (std::thread& t : threads)
    t.join();
  for (node_id node = 0; node < nodes; ++node)
    ASSERT_EQ(table.find(node)->load(std::memory_order_relaxed), 4U) << node;
}

} // namespace
} // namespace farcall::node_table_test
