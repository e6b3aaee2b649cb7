// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/call_pool.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/am/requester_test_support.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace farcall::test::call_pool_test {
namespace {

using namespace am;
using std::chrono::seconds;

constexpr std::uint32_t chunk = call_pool::chunk_calls;

void read_nothing(pending_call& /*slot*/, reply_action /*action*/, reply_view /*what*/) {}

/// The pool of a lane whose peer never replies.
class call_pools : public ::testing::Test {
 protected:
  std::vector<pending_call*> take(std::size_t n) {
    std::vector<pending_call*> all;
    for (std::size_t i = 0; i < n; ++i)
      all.push_back(&lane_.take_call(&read_nothing));
    return all;
  }
  /// Gives the calls back as if they had been sent and had ended.
  void give_back(const std::vector<pending_call*>& all) {
    for (pending_call* slot : all) {
      lane_.fail_call(*slot, nullptr);
      lane_.return_call(*slot);
    }
  }

  idle_engine engine_;
  ring_pair rings_;
  requester lane_{*engine_, rings_.opener(), engine_.doorbell_of(0)};
  call_pool& pool_{lane_.calls()};
};

TEST_F(call_pools, allocate_memory_for_the_first_call) {
  EXPECT_EQ(pool_.capacity(), 0U);
  EXPECT_EQ(pool_.first_free(), nullptr);
  EXPECT_FALSE(pool_.has(0));
  pending_call& slot = pool_.take();
  EXPECT_EQ(pool_.capacity(), chunk);
  EXPECT_EQ(pool_.taken(), 1U);
  EXPECT_NE(pool_.first_free(), nullptr);
  pool_.give_back(slot);
  EXPECT_EQ(pool_.taken(), 0U);
}

TEST_F(call_pools, take_each_call_once) {
  const std::vector<pending_call*> all = take(2 * chunk + 1);
  EXPECT_EQ(pool_.taken(), 2 * chunk + 1);
  EXPECT_EQ(pool_.capacity(), 3 * chunk);
  EXPECT_EQ(std::set<pending_call*>(all.begin(), all.end()).size(), all.size());
}

TEST_F(call_pools, find_calls_by_number) {
  for (pending_call* slot : take(chunk + 1)) {
    ASSERT_TRUE(pool_.has(slot->index()));
    EXPECT_EQ(&pool_[slot->index()], slot);
  }
  EXPECT_TRUE(pool_.has(2 * chunk - 1));
  EXPECT_FALSE(pool_.has(2 * chunk));
  EXPECT_FALSE(pool_.has(no_slot));
}

TEST_F(call_pools, take_the_call_that_was_given_back_last) {
  const std::vector<pending_call*> two = take(2);
  pool_.give_back(*two[0]);
  pool_.give_back(*two[1]);
  EXPECT_EQ(pool_.first_free(), two[1]);
  EXPECT_EQ(&pool_.take(), two[1]);
  EXPECT_EQ(&pool_.take_first(), two[0]);
}

TEST_F(call_pools, visit_free_and_taken_calls) {
  (void)take(3);
  std::set<const pending_call*> seen;
  pool_.for_each([&](const pending_call& slot) { seen.insert(&slot); });
  EXPECT_EQ(seen.size(), chunk);
}

TEST_F(call_pools, give_back_the_memory_of_unused_chunks) {
  std::vector<pending_call*> many = take(600);
  pending_call* const kept = many.back();
  many.pop_back();
  give_back(many);
  pool_.give_back_unused();
  EXPECT_EQ(pool_.capacity(), chunk);
  EXPECT_EQ(pool_.taken(), 1U);
  give_back({kept});
  pool_.give_back_unused();
  EXPECT_EQ(pool_.capacity(), 0U);
  give_back(take(chunk + 1));
  EXPECT_EQ(pool_.capacity(), 2 * chunk);
}

TEST_F(call_pools, give_back_memory_of_idle_calls) {
  give_back(take(1000));
  EXPECT_EQ(pool_.capacity(), 1024U);
  const time_point start = clock::now();
  // The calls of a recent burst stay.
  pool_.trim(start);
  give_back(take(1000));
  pool_.trim(start + seconds(2));
  EXPECT_EQ(pool_.capacity(), 1024U);
  // A chunk with a held call stays; other chunks stay for a second.
  std::vector<pending_call*> many = take(600);
  const auto held = std::find_if(many.begin(), many.end(),
                                 [](const pending_call* slot) { return slot->index() >= 256; });
  ASSERT_NE(held, many.end());
  pending_call* const kept = *held;
  many.erase(held);
  give_back(many);
  pool_.trim(start + seconds(4));
  pool_.trim(start + seconds(4));
  EXPECT_EQ(pool_.capacity(), 768U);
  pool_.trim(start + seconds(6));
  EXPECT_EQ(pool_.capacity(), 512U);
  EXPECT_EQ(pool_.taken(), 1U);
  std::size_t visited = 0;
  pool_.for_each([&](const pending_call& /*slot*/) { ++visited; });
  EXPECT_EQ(visited, 512U);
  give_back({kept});
  // The pool grows again, and hands out each call once.
  const std::vector<pending_call*> again = take(1024);
  EXPECT_EQ(pool_.capacity(), 1024U);
  EXPECT_EQ(std::set<pending_call*>(again.begin(), again.end()).size(), 1024U);
  std::set<std::uint32_t> numbers;
  for (const pending_call* slot : again)
    numbers.insert(slot->index());
  EXPECT_EQ(numbers.size(), 1024U);
  EXPECT_EQ(*numbers.rbegin(), 1023U);
  give_back(again);
}

} // namespace
} // namespace farcall::test::call_pool_test
