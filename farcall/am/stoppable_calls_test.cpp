#include <farcall/am/stoppable_calls.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace farcall::test {
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

TEST_F(stoppable_call_tables, live_as_long_as_their_calls) {
  const auto call = calls_->begin(1, 7);
  calls_ = {};
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
} // namespace farcall::test
