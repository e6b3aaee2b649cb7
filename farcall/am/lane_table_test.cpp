// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/lane_table.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace farcall::test::lane_table_test {
namespace {

using namespace am;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

void read_nothing(pending_call& /*slot*/, reply_action /*action*/, reply_view /*what*/) {}

void reply_nothing(request_context& /*request*/) noexcept {}

class lane_tables : public ::testing::Test {
 protected:
  requester& open_own() { return lanes_.open_own(peer_id, no_deadline); }

  static pending_call& take_call(requester& l) {
    l.guard().lock();
    pending_call& slot = l.take_call(&read_nothing);
    l.guard().unlock();
    return slot;
  }

  idle_engine engine_{{&reply_nothing}};
  lane_table& lanes_ = engine_->lanes();
};

TEST_F(lane_tables, give_a_thread_its_lanes_at_their_first_use) {
  EXPECT_EQ(lanes_.find_own(), nullptr);
  requester& lane = open_own();
  EXPECT_EQ(&open_own(), &lane);
  ASSERT_NE(lanes_.find_own(), nullptr);
  EXPECT_EQ(lanes_.find_own()->find(peer_id), &lane);
  EXPECT_EQ(lanes_.counters_of_thread(), &lanes_.find_own()->counters);
  EXPECT_EQ(lanes_.sets_made(), 1U);
}

TEST_F(lane_tables, give_the_lanes_of_ended_threads_to_others) {
  requester* first = nullptr;
  requester* second = nullptr;
  std::thread([&] { first = &open_own(); }).join();
  std::thread([&] { second = &open_own(); }).join();
  EXPECT_EQ(first, second);
  EXPECT_THAT(engine_.via.opened, SizeIs(1));
}

TEST_F(lane_tables, give_an_idle_lane_if_none_is_left) {
  requester* idle = nullptr;
  (void)lanes_.own();
  std::thread([&] { idle = &open_own(); }).join();
  engine_.via.max_open = 1;
  EXPECT_EQ(&open_own(), idle);
}

TEST_F(lane_tables, let_threads_share_a_lane_if_none_is_left) {
  requester& lane = open_own();
  engine_.via.max_open = 1;
  std::thread([&] {
    EXPECT_EQ(&open_own(), &lane);
    EXPECT_EQ(lane.thread_uses, 2U);
  }).join();
  EXPECT_THROW((void)lanes_.open(peer_id, no_deadline), no_lane_left) << "a thread uses it";
}

TEST_F(lane_tables, close_an_idle_lane_to_open_another) {
  (void)lanes_.own();
  std::thread([&] { (void)open_own(); }).join();
  engine_.via.max_open = 1;
  requester& lane = lanes_.open(peer_id, no_deadline);
  EXPECT_EQ(lane.thread_uses, 0U);
  EXPECT_THAT(engine_.via.closed, SizeIs(1));
}

TEST_F(lane_tables, keep_retired_lanes_until_their_last_call_has_ended) {
  requester& lane = lanes_.open(peer_id, no_deadline);
  pending_call& call = take_call(lane);
  lanes_.retire(lane);
  EXPECT_TRUE(lanes_.reap().is_empty());
  EXPECT_THAT(engine_.via.closed, IsEmpty());
  lane.free_call(call);
  EXPECT_TRUE(lanes_.reap().is_empty());
  EXPECT_THAT(engine_.via.closed, SizeIs(1));
  EXPECT_THAT(lanes_.all(), IsEmpty());
}

TEST_F(lane_tables, say_whether_a_lane_will_become_free) {
  requester& lane = lanes_.open(peer_id, no_deadline);
  pending_call& call = take_call(lane);
  engine_.via.max_open = 1;
  EXPECT_THROW((void)lanes_.try_open(peer_id, {}), no_lane_left);
  lanes_.retire(lane);
  EXPECT_THROW((void)lanes_.try_open(peer_id, {}), no_lane_left) << "this thread holds its call";
  lane.abandon(call);
  (void)lanes_.reap();
  EXPECT_TRUE(lanes_.try_open(peer_id, {}));
}

TEST_F(lane_tables, take_in_replies_to_calls_of_all_threads) {
  requester* lane = nullptr;
  pending_call* call = nullptr;
  (void)lanes_.own();
  std::thread([&] {
    lane = &open_own();
    call = &take_call(*lane);
    lane->guard().lock();
    std::byte* const to = lane->try_reserve_request(0);
    lane->commit_request(to, 0, first_user_key, call);
    lane->guard().unlock();
  }).join();
  continuation_list due;
  EXPECT_FALSE(lanes_.has_replies());
  EXPECT_FALSE(lanes_.pump_all(due));
  outbox replies = engine_.via.opened.at(0)->server().out;
  ASSERT_TRUE(send_record(replies, record_kind::reply, call->index()));
  EXPECT_TRUE(lanes_.has_replies());
  EXPECT_FALSE(lanes_.pump_own()) << "another thread's";
  EXPECT_TRUE(lanes_.pump_all(due));
  EXPECT_TRUE(call->ready());
  lane->free_call(*call);
}

TEST_F(lane_tables, name_the_doorbells_of_all_threads) {
  requester& lane = open_own();
  std::thread([&] { (void)open_own(); }).join();
  std::vector<doorbell*> all;
  EXPECT_EQ(lanes_.add_doorbells(all), 2U);
  EXPECT_THAT(all, SizeIs(2));
  EXPECT_THAT(all, Contains(&lane.wakes()));
  std::vector<doorbell*> own;
  lanes_.add_own_doorbells(own);
  EXPECT_THAT(own, Each(&lane.wakes()));
  EXPECT_THAT(all, Not(Contains(&engine_.doorbell_of(0)))) << "a worker's";
}

TEST_F(lane_tables, end_calls_to_nodes_that_have_failed) {
  requester& lane = open_own();
  continuation_list due;
  lanes_.end_calls_to({}, due);
  EXPECT_EQ(lane.failure(), nullptr);
  lanes_.end_calls_to(engine_->peers().fail(peer_id, "it has died"), due);
  EXPECT_NE(lane.failure(), nullptr);
  EXPECT_TRUE(due.is_empty());
}

TEST_F(lane_tables, have_threads_avoid_lanes_of_refused_calls) {
  requester& lane = open_own();
  requester& opened = lanes_.open(peer_id, no_deadline);
  lanes_.refuse_calls_to(peer_id, "it was removed");
  EXPECT_TRUE(lane.is_lost());
  EXPECT_FALSE(opened.is_lost()) << "no thread's";
  EXPECT_EQ(lane.failure(), nullptr) << "calls that were made go on";
  EXPECT_THROW((void)open_own(), node_failed);
}

// ---- nodes that have a place one after the other ------------------------------------------------

TEST_F(lane_tables, give_a_later_node_lanes_of_its_own) {
  const node_id later = successor_of(peer_id);
  requester& former = open_own();
  thread_lanes& own = *lanes_.find_own();
  EXPECT_EQ(own.find(later), nullptr);
  engine_->fail(peer_id, "it has died");
  engine_->peers().set_route(later, engine_.via, 1);
  requester& lane = lanes_.open_own(later, no_deadline);
  EXPECT_NE(&lane, &former);
  EXPECT_EQ(lane.peer(), later);
  EXPECT_EQ(lane.failure(), nullptr);
  EXPECT_EQ(own.find(later), &lane);
  EXPECT_EQ(own.find(peer_id), &former) << "calls to the former node fail at once";
  EXPECT_NE(former.failure(), nullptr);
  EXPECT_EQ(own.find(successor_of(later)), nullptr);
  EXPECT_EQ(own.find(no_node), nullptr);
  EXPECT_EQ(&lanes_.open_own(later, no_deadline), &lane);
  EXPECT_THAT(engine_.via.opened, SizeIs(2));
}

TEST_F(lane_tables, have_entries_for_any_number_of_later_nodes) {
  node_id node = peer_id;
  for (unsigned i = 0; i < 50; ++i) {
    requester& lane = lanes_.open_own(node, no_deadline);
    std::vector<requester*> all;
    lanes_.find_own()->for_each([&](requester& l) { all.push_back(&l); });
    EXPECT_THAT(all, ElementsAre(&lane)) << "only the latest node of the place";
    engine_->fail(node, "it has died");
    node = successor_of(node);
    engine_->peers().set_route(node, engine_.via, 1);
  }
}

TEST_F(lane_tables, keep_a_later_node_apart_from_former_failures) {
  const node_id later = successor_of(peer_id);
  engine_->fail(peer_id, "it has died");
  engine_->peers().set_route(later, engine_.via, 1);
  requester& lane = lanes_.open_own(later, no_deadline);
  engine_->fail(peer_id, "it has died again");
  EXPECT_EQ(lane.failure(), nullptr);
  EXPECT_FALSE(engine_->has_failed(later));
  EXPECT_THROW((void)lanes_.open_own(peer_id, no_deadline), node_failed);
  EXPECT_THAT(engine_.via.forgotten, Each(peer_id));
}

} // namespace
} // namespace farcall::test::lane_table_test
