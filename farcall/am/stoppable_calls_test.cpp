// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/stoppable_calls.hpp>
#include <tests/child.hpp>
#include <tests/sanitizer.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <unistd.h>

namespace farcall::test::stoppable_calls_test {
namespace {

using namespace am;

class stoppable_call_tables : public ::testing::Test {
 protected:
  counted_ptr<stoppable_calls> calls_{new stoppable_calls};
};

TEST_F(stoppable_call_tables, tell_calls_that_have_begun) {
  const auto call = calls_->begin(1, 7);
  const auto other = calls_->begin(1, 8);
  const auto of_another = calls_->begin(2, 7);
  EXPECT_EQ(calls_->size(), 3U);
  calls_->stop(1, 7);
  EXPECT_TRUE(call->stop_requested());
  EXPECT_FALSE(other->stop_requested());
  EXPECT_FALSE(of_another->stop_requested());
  call->end();
  other->end();
  of_another->end();
  EXPECT_EQ(calls_->size(), 0U);
}

TEST_F(stoppable_call_tables, keep_calls_from_beginning) {
  calls_->stop(1, 7);
  EXPECT_FALSE(calls_->begin(1, 7));
  EXPECT_EQ(calls_->size(), 0U);
  calls_->forget(1, 7);
  const auto again = calls_->begin(1, 7);
  ASSERT_TRUE(again) << "the id may be used again";
  EXPECT_FALSE(again->stop_requested());
  again->end();
}

TEST_F(stoppable_call_tables, forget_stops_that_came_too_late) {
  calls_->begin(1, 7)->end();
  calls_->stop(1, 7);
  EXPECT_EQ(calls_->size(), 1U);
  calls_->stop(1, 7);
  EXPECT_EQ(calls_->size(), 1U);
  calls_->forget(1, 7);
  EXPECT_EQ(calls_->size(), 0U);
  const auto again = calls_->begin(1, 7);
  ASSERT_TRUE(again);
  again->end();
}

TEST_F(stoppable_call_tables, forget_nothing_that_runs) {
  const auto call = calls_->begin(1, 7);
  calls_->forget(1, 7);
  calls_->stop(1, 7);
  EXPECT_TRUE(call->stop_requested());
  call->end();
  call->end();
  EXPECT_EQ(calls_->size(), 0U);
}

TEST_F(stoppable_call_tables, take_a_second_call_by_one_name) {
  const auto first = calls_->begin(1, 7);
  const auto second = calls_->begin(1, 7);
  ASSERT_TRUE(second);
  second->end();
  calls_->stop(1, 7);
  EXPECT_TRUE(first->stop_requested());
  EXPECT_FALSE(second->stop_requested());
  first->end();
  EXPECT_EQ(calls_->size(), 0U);
}

TEST_F(stoppable_call_tables, give_the_calls_of_a_node_that_has_failed) {
  const auto first = calls_->begin(1, 7);
  const auto last = calls_->begin(1, UINT64_MAX);
  const auto of_another = calls_->begin(2, 0);
  calls_->stop(1, 9);
  const auto dropped = calls_->drop_calls_of(1);
  ASSERT_EQ(dropped.size(), 2U);
  EXPECT_EQ(dropped[0].get(), first.get());
  EXPECT_EQ(dropped[1].get(), last.get());
  EXPECT_EQ(calls_->size(), 1U);
  first->end();
  last->end();
  of_another->end();
  const auto later = calls_->begin(1, 9);
  ASSERT_TRUE(later) << "what is known of its stops is gone, too";
  later->end();
}

TEST_F(stoppable_call_tables, take_many) {
  constexpr std::uint64_t many = 1000;
  std::vector<counted_ptr<stop_state>> all;
  for (std::uint64_t id = 0; id < many; ++id) {
    for (const node_id origin : {1U, 2U, 3U})
      all.push_back(calls_->begin(origin, id));
  }
  EXPECT_EQ(calls_->size(), 3 * many);
  for (std::uint64_t id = 0; id < many; id += 2)
    calls_->stop(2, id);
  for (const auto& call : all)
    EXPECT_EQ(call->stop_requested(), call->origin() == 2 && call->id() % 2 == 0);
  EXPECT_EQ(calls_->drop_calls_of(3).size(), many);
  EXPECT_EQ(calls_->size(), 2 * many);
  for (const auto& call : all)
    call->end();
  EXPECT_EQ(calls_->size(), 0U);
}

TEST_F(stoppable_call_tables, live_as_long_as_their_calls) {
  const auto call = calls_->begin(1, 7);
  calls_ = {};
  call->end();
}

TEST_F(stoppable_call_tables, are_whole_in_children_of_forks) {
  // Children would deadlock on a sanitizer's lock that a parent's thread held.
  if (under_sanitizer) GTEST_SKIP() << "sanitizers do not keep their own locks whole over a fork";
  std::atomic<bool> ends{false};
  std::vector<counted_ptr<stop_state>> many;
  for (std::uint64_t id = 0; id < 3000; ++id)
    many.push_back(calls_->begin(2, id));
  // Holds the table's lock most of the time.
  std::thread other([&] {
    while (!ends)
      (void)calls_->drop_calls_of(3);
  });
  for (std::uint64_t id = 0; id < 30; ++id) {
    const auto call = calls_->begin(1, id);
    // Lets the other thread lock again.
    std::this_thread::sleep_for(std::chrono::microseconds(20 * id));
    forked_child child([&] {
      ::alarm(20);
      call->end();
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    call->end();
  }
  ends = true;
  other.join();
  for (const auto& each : many)
    each->end();
}

TEST_F(stoppable_call_tables, let_children_of_forks_remove_what_listens) {
  if (under_sanitizer) GTEST_SKIP() << "sanitizers do not keep their own locks whole over a fork";
  class keeping final : public stop_listener {
   public:
    void stop() noexcept override {
      begun = true;
      (void)eventually([&] { return goes_on.load(); });
    }
    std::atomic<bool> begun{false};
    std::atomic<bool> goes_on{false};
  } l;
  const auto call = calls_->begin(1, 7);
  ASSERT_TRUE(call->add(l));
  std::thread telling([&] { calls_->stop(1, 7); });
  EXPECT_TRUE(eventually([&] { return l.begun.load(); }));
  forked_child child([&] {
    ::alarm(20);
    call->remove(l);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  l.goes_on = true;
  telling.join();
  call->remove(l);
  call->end();
}

TEST_F(stoppable_call_tables, race_of_stops_with_beginnings) {
  int begun = 0;
  int stopped = 0;
  constexpr int rounds = 3000;
  for (std::uint64_t id = 1; id <= rounds; ++id) {
    std::atomic<bool> goes{false};
    std::thread stopping([&] {
      while (!goes)
        std::this_thread::yield();
      calls_->stop(1, id);
    });
    goes = true;
    const auto call = calls_->begin(1, id);
    stopping.join();
    if (call) {
      ++begun;
      ASSERT_TRUE(call->stop_requested()) << "not told, and not kept from beginning";
      call->end();
    } else {
      ++stopped;
    }
    ASSERT_EQ(calls_->size(), 0U);
  }
  EXPECT_EQ(begun + stopped, rounds);
}

} // namespace
} // namespace farcall::test::stoppable_calls_test
