// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/arrival_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace farcall::test::worker_pool_test {
namespace {

using namespace am;
using namespace thread_handlers;
using ::testing::ElementsAre;

class worker_pools : public engine_with_arrivals {};

TEST_F(worker_pools, serve_what_has_arrived_before_they_stop) {
  arrived_lane& lane = arrive();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
  serve_what_is_there();
  EXPECT_THAT(lane.take_replies(), ElementsAre(this_thread(), this_thread(), this_thread()));
}

TEST_F(worker_pools, stop_although_nobody_reads_their_replies) {
  arrived_lane& lane = arrive();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(send_request(lane.requests, much_key, 1));
  serve_what_is_there();
  const std::size_t replied = lane.take_replies().size();
  EXPECT_GT(replied, 0U);
  EXPECT_LT(replied, 20U);
}

TEST_F(worker_pools, notify_each_sleeper_of_kept_replies_once) {
  const auto notifications = [this](std::size_t which) {
    return engine_.doorbell_of(which).word.load(std::memory_order_relaxed) >> 1;
  };
  constexpr std::size_t of_worker = 0;
  for (const std::size_t sleeper : {of_worker, std::size_t{own_doorbell}}) {
    std::vector<std::uint32_t> before;
    for (std::size_t i = 0; i < idle_engine::doorbell_count; ++i)
      before.push_back(notifications(i));
    armed_doorbell armed{&engine_.doorbell_of(sleeper)};
    arm({&armed, 1});
    for (int replies = 0; replies < 100; ++replies)
      engine_->workers().deferred_reply_was_sent(true);
    for (std::size_t i = 0; i < idle_engine::doorbell_count; ++i)
      EXPECT_EQ(notifications(i) - before[i], i == sleeper ? 1U : 0U) << "doorbell " << i;
  }
}

TEST_F(worker_pools, wake_up_for_requests) {
  engine_->workers().start(0);
  arrived_lane& lane = arrive();
  notify(engine_.doorbell_of(0));
  for (int i = 0; i < 3; ++i) {
    // The test's is the only notification that the worker receives.
    while ((engine_.doorbell_of(0).word.load() & armed_flag) == 0)
      std::this_thread::yield();
    ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
    notify(engine_.doorbell_of(0));
    EXPECT_NE(lane.wait_for_reply(), this_thread());
  }
}

TEST_F(worker_pools, stop_twice) {
  engine_->workers().start(0);
  engine_->workers().stop();
  engine_->workers().stop();
  engine_->shut_down("done");
  engine_->shut_down("done again");
}

} // namespace
} // namespace farcall::test::worker_pool_test
