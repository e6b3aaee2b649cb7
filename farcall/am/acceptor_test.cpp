// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/arrival_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace farcall::test::acceptor_test {
namespace {

using namespace am;
using namespace thread_handlers;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class acceptors : public engine_with_arrivals {};

TEST_F(acceptors, serve_lanes_that_name_an_impossible_worker) {
  arrived_lane& lane = arrive(77);
  ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
  serve_what_is_there();
  EXPECT_THAT(lane.take_replies(), ElementsAre(this_thread()));
}

TEST_F(acceptors, close_lanes_of_nodes_that_do_not_exist) {
  const arrived_lane& lane = arrive(0, false, 2);
  serve_what_is_there();
  EXPECT_THAT(engine_.via.closed, ElementsAre(lane.id));
}

TEST_F(acceptors, close_lanes_of_nodes_that_have_failed) {
  engine_->fail(peer_id, "it is gone");
  EXPECT_THAT(engine_.via.forgotten, ElementsAre(peer_id));
  const arrived_lane& lane = arrive();
  serve_what_is_there();
  EXPECT_THAT(engine_.via.closed, ElementsAre(lane.id));
}

TEST_F(acceptors, close_late_lanes_of_former_nodes) {
  const node_id later = successor_of(peer_id);
  engine_->fail(peer_id, "it is gone");
  engine_->peers().set_route(later, engine_.via, 1);
  arrived_lane& late = arrive();
  arrived_lane& good = arrive(0, false, later);
  ASSERT_TRUE(send_request(late.requests, thread_key, 1));
  ASSERT_TRUE(send_request(good.requests, thread_key, 2));
  serve_what_is_there();
  EXPECT_THAT(late.take_replies(), IsEmpty());
  EXPECT_THAT(engine_.via.closed, ElementsAre(late.id));
  EXPECT_THAT(good.take_replies(), ElementsAre(this_thread()));
}

TEST_F(acceptors, cut_only_the_lanes_of_the_node_that_fails) {
  const node_id later = successor_of(peer_id);
  engine_->peers().set_route(later, engine_.via, 1);
  arrived_lane& good = arrive(0, false, later);
  serve_what_is_there();
  engine_->fail(peer_id, "its end is noticed late");
  ASSERT_TRUE(send_request(good.requests, thread_key, 1));
  engine_->workers().serve(0);
  EXPECT_THAT(good.take_replies(), ElementsAre(this_thread()));
}

TEST_F(acceptors, cut_lanes_of_a_node_that_fails) {
  arrived_lane& lane = arrive();
  serve_what_is_there();
  EXPECT_THAT(engine_.via.closed, IsEmpty());
  engine_->fail(peer_id, "it is gone");
  ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
  engine_->workers().serve(0);
  EXPECT_THAT(lane.take_replies(), IsEmpty());
}

TEST_F(acceptors, refuse_lanes_that_are_too_many) {
  for (int i = 0; i < 512; ++i)
    (void)arrive();
  arrived_lane& one_more = arrive();
  serve_what_is_there();
  const record_view why = peek(one_more.replies);
  EXPECT_EQ(why.kind, record_kind::refusal);
  EXPECT_THAT(body_of(why), HasSubstr("too many lanes"));
  release(one_more.replies, why);
  EXPECT_EQ(peek(one_more.replies).kind, record_kind::corrupt) << "its calls must end";
  EXPECT_THAT(engine_.via.closed, Not(Contains(one_more.id))) << "the peer may still write to it";

  ASSERT_TRUE(send_request(one_more.requests, thread_key, 1));
  engine_.via.ended = {one_more.id};
  engine_->workers().serve(0);
  EXPECT_THAT(engine_.via.closed, Contains(one_more.id));
}

TEST_F(acceptors, give_a_lane_that_asks_its_own_thread) {
  arrived_lane& own = arrive(own_doorbell, true);
  arrived_lane& another = arrive(own_doorbell, true);
  arrived_lane& shared = arrive();
  for (arrived_lane* lane : {&own, &own, &another, &shared})
    ASSERT_TRUE(send_request(lane->requests, thread_key, 1));
  serve_what_is_there();
  const std::string first = own.wait_for_reply();
  EXPECT_NE(first, this_thread());
  EXPECT_EQ(own.wait_for_reply(), first);
  EXPECT_NE(another.wait_for_reply(), first);
  EXPECT_THAT(shared.take_replies(), ElementsAre(this_thread()));
}

/// Requests in such lanes would wake no thread.
TEST_F(acceptors, close_lanes_whose_own_thread_has_an_impossible_doorbell) {
  std::vector<std::uint64_t> ids;
  for (const std::uint32_t impossible : {0U, 63U, 64U, UINT32_MAX})
    ids.push_back(arrive(impossible, true).id);
  serve_what_is_there();
  EXPECT_EQ(engine_.via.closed, ids);
}

TEST_F(acceptors, accept_lanes_while_their_workers_are_busy) {
  engine_->workers().start(0);
  arrived_lane& busy = arrive();
  ASSERT_TRUE(send_request(busy.requests, hold_key, 1));
  notify(engine_.doorbell_of(0));
  arrived_lane& own = arrive(own_doorbell, true);
  ASSERT_TRUE(send_request(own.requests, thread_key, 1));
  notify(engine_.doorbell_of(idle_engine::doorbell_count - 1));
  EXPECT_NE(own.wait_for_reply(), this_thread());
  EXPECT_THAT(busy.take_replies(), IsEmpty());
  gate_is_open = true;
  (void)busy.wait_for_reply();
}

} // namespace
} // namespace farcall::test::acceptor_test
