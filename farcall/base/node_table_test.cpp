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
  int* const made = table.publish(3, std::make_unique<int>(7));
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(table.find(3), made);
  EXPECT_EQ(*made, 7);
}

TEST(node_table, the_first_entry_stays) {
  node_table<int> table(2);
  int* const first = table.publish(1, std::make_unique<int>(1));
  EXPECT_EQ(table.publish(1, std::make_unique<int>(2)), first);
  EXPECT_EQ(table.find_or_make(1), first);
  EXPECT_EQ(*first, 1);
}

TEST(node_table, finds_nothing_beyond_its_capacity) {
  node_table<int> table(2);
  EXPECT_EQ(table.find(2), nullptr);
  EXPECT_EQ(table.find(no_node), nullptr);
  EXPECT_EQ(table.publish(2, std::make_unique<int>(1)), nullptr);
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
    table.publish(node, std::make_unique<int>(static_cast<int>(node) * 10));
  std::vector<std::pair<node_id, int>> all;
  table.for_each([&](node_id node, int value) { all.emplace_back(node, value); });
  EXPECT_THAT(all, ElementsAre(std::pair{0U, 0}, std::pair{5U, 50}, std::pair{7U, 70}));
}

TEST(node_table, capacity_has_space_for_nodes_that_join) {
  EXPECT_EQ(node_capacity(2), 1024U);
  EXPECT_EQ(node_capacity(1001), 2002U);
  EXPECT_EQ(node_capacity(40000), max_node_numbers);
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
