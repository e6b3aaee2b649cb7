// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/counted.hpp>

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace farcall::counted_test {
namespace {

struct probe : counted {
  explicit probe(int& destroyed) : destroyed_(destroyed) {}
  ~probe() { ++destroyed_; }
  int& destroyed_;
};

TEST(counted_ptr, the_last_holder_deletes) {
  int destroyed = 0;
  counted_ptr<probe> first(new probe(destroyed));
  counted_ptr<probe> second = first;
  first = counted_ptr<probe>();
  EXPECT_EQ(destroyed, 0);
  second = counted_ptr<probe>();
  EXPECT_EQ(destroyed, 1);
}

TEST(counted_ptr, a_move_transfers_ownership) {
  int destroyed = 0;
  counted_ptr<probe> first(new probe(destroyed));
  {
    const counted_ptr<probe> second = std::move(first);
    EXPECT_EQ(&second->destroyed_, &destroyed);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(counted_ptr, may_be_assigned_to_itself) {
  int destroyed = 0;
  counted_ptr<probe> held(new probe(destroyed));
  const counted_ptr<probe>& same = held;
  held = same;
  EXPECT_EQ(destroyed, 0);
}

TEST(counted_ptr, threads_release_at_the_same_time) {
  int destroyed = 0;
  {
    const counted_ptr<probe> held(new probe(destroyed));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([held] {
        for (int n = 0; n < 1000; ++n)
          const counted_ptr<probe> copy = held;
      });
    }
    for (std::thread& t : threads)
      t.join();
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

} // namespace
} // namespace farcall::counted_test
