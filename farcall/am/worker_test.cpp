// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/requester_test_support.hpp>
#include <farcall/am/worker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace farcall::test::worker_test {
namespace {

using namespace am;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> seen;
worker* worker_of_handlers = nullptr;
fake_transport* transport_of_handlers = nullptr;

void note(request_context& request) noexcept {
  seen.emplace_back(reinterpret_cast<const char*>(request.arguments()),
                    static_cast<std::size_t>(request.bytes()));
}

/// Sends a reply of about half the largest record.
void reply_much(request_context& request) noexcept {
  std::byte* to = request.reserve_reply(500);
  std::memset(to, 'x', 500);
  request.commit_reply(to, 500);
}

void reclaim_inside(request_context& /*request*/) noexcept {
  (void)worker_of_handlers->reclaim();
  seen.emplace_back(transport_of_handlers->closed.empty() ? "kept" : "destroyed while looked at");
}

enum key : handler_key { note_key = first_user_key, much_key, reclaim_key };

std::vector<handler_function> handlers() { return {&note, &reply_much, &reclaim_inside}; }

/// A worker, and the openers' ends of the lanes that it serves.
class worker_lanes : public ::testing::Test {
 protected:
  struct opened {
    std::unique_ptr<ring_pair> rings;
    fake_driver driver;
    outbox requests;
    inbox replies;
    std::uint64_t id = 0;
  };

  worker_lanes() : engine_(handlers()), worker_(*engine_, 0, engine_.doorbell_of(0), 512) {
    seen.clear();
    worker_of_handlers = &worker_;
    transport_of_handlers = &engine_.via;
  }

  opened& open(node_id from = peer_id) {
    lanes_.push_back(std::make_unique<opened>());
    opened& made = *lanes_.back();
    made.rings = std::make_unique<ring_pair>();
    made.requests = made.rings->opener().out;
    made.replies = made.rings->opener().in;
    made.id = lanes_.size();
    endpoint c = made.rings->server();
    c.driver = &made.driver;
    c.peer = from;
    c.id = made.id;
    EXPECT_TRUE(worker_.add(engine_.via, c));
    return made;
  }

  /// Makes calls until a reply waits for space.
  void block(opened& lane) {
    for (int i = 0; !worker_.is_blocked(); ++i) {
      ASSERT_LT(i, 100);
      ASSERT_TRUE(send_request(lane.requests, much_key, 1));
      ASSERT_EQ(worker_.turn(true), 1U);
    }
  }

  static void drain(opened& lane) {
    while (const record_view record = peek(lane.replies))
      release(lane.replies, record);
  }

  idle_engine engine_;
  std::vector<std::unique_ptr<opened>> lanes_;
  worker worker_;
};

TEST_F(worker_lanes, serve_all_their_lanes) {
  opened& a = open();
  opened& b = open();
  EXPECT_FALSE(worker_.has_work());
  EXPECT_EQ(worker_.turn(false), 0U);
  ASSERT_TRUE(send_request(b.requests, note_key, 1, "b1"));
  ASSERT_TRUE(send_request(a.requests, note_key, 1, "a1"));
  ASSERT_TRUE(send_request(a.requests, note_key, 1, "a2"));
  EXPECT_TRUE(worker_.has_work());
  EXPECT_EQ(worker_.turn(false), 3U);
  EXPECT_THAT(seen, ElementsAre("a1", "a2", "b1"));
  EXPECT_FALSE(worker_.has_work());
}

TEST_F(worker_lanes, serve_a_single_request_for_a_waiting_thread) {
  opened& a = open();
  opened& b = open();
  for (opened* lane : {&a, &a, &b})
    ASSERT_TRUE(send_request(lane->requests, note_key, 1, "x"));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(worker_.turn(true), 1U);
  EXPECT_EQ(worker_.turn(true), 0U);
}

TEST_F(worker_lanes, give_each_lane_its_turn) {
  opened& a = open();
  opened& b = open();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(send_request(a.requests, note_key, no_slot, "a"));
  ASSERT_TRUE(send_request(b.requests, note_key, no_slot, "b"));
  EXPECT_EQ(worker_.turn(false), 65U) << "a batch of one, all of the other";
  EXPECT_EQ(seen.back(), "b");
  EXPECT_EQ(worker_.turn(false), 36U);
}

TEST_F(worker_lanes, have_a_limited_number_of_lanes) {
  for (int i = 0; i < 512; ++i)
    (void)open();
  const ring_pair one_more;
  EXPECT_FALSE(worker_.add(engine_.via, one_more.server()));
  engine_.via.ended = {17};
  EXPECT_EQ(worker_.reclaim(), 511U);
  EXPECT_TRUE(worker_.add(engine_.via, one_more.server())) << "a place is free again";
}

TEST_F(worker_lanes, move_bytes_for_all_lanes) {
  opened& a = open();
  opened& b = open();
  worker_.progress();
  worker_.arm();
  (void)worker_.turn(false);
  for (const opened* lane : {&a, &b}) {
    EXPECT_EQ(lane->driver.progressed, 2);
    EXPECT_EQ(lane->driver.armed, 1);
  }
}

TEST_F(worker_lanes, move_the_bytes_of_lanes_with_one_driver_once) {
  fake_driver common;
  const ring_pair first;
  const ring_pair second;
  for (const ring_pair* rings : {&first, &second}) {
    endpoint c = rings->server();
    c.driver = &common;
    ASSERT_TRUE(worker_.add(engine_.via, c));
  }
  opened& between = open();
  worker_.progress();
  EXPECT_EQ(common.progressed, 1);
  (void)worker_.turn(false);
  EXPECT_EQ(common.progressed, 2);
  EXPECT_EQ(between.driver.progressed, 2);
}

TEST_F(worker_lanes, are_blocked_while_replies_find_no_space) {
  opened& a = open();
  opened& b = open();
  EXPECT_FALSE(worker_.is_blocked());
  block(a);
  ASSERT_TRUE(send_request(a.requests, note_key, 1, "behind"));
  EXPECT_FALSE(worker_.has_work()) << "it cannot be served now";
  EXPECT_EQ(worker_.turn(false), 0U);
  ASSERT_TRUE(send_request(b.requests, note_key, 1, "another lane"));
  EXPECT_TRUE(worker_.has_work());
  EXPECT_EQ(worker_.turn(false), 1U);
  drain(a);
  EXPECT_EQ(worker_.turn(false), 1U);
  EXPECT_FALSE(worker_.is_blocked());
  EXPECT_EQ(seen.back(), "behind");
}

TEST_F(worker_lanes, give_closed_lanes_back) {
  const opened& a = open();
  (void)open();
  EXPECT_EQ(worker_.reclaim(), 2U);
  EXPECT_THAT(engine_.via.closed, IsEmpty());
  engine_.via.ended = {a.id};
  EXPECT_EQ(worker_.reclaim(), 1U);
  EXPECT_THAT(engine_.via.closed, ElementsAre(a.id));
  EXPECT_EQ(worker_.reclaim(), 1U);
  EXPECT_THAT(engine_.via.closed, ElementsAre(a.id)) << "once";
}

TEST_F(worker_lanes, keep_closed_lanes_whose_replies_wait) {
  opened& a = open();
  block(a);
  engine_.via.ended = {a.id};
  EXPECT_EQ(worker_.reclaim(), 1U);
  drain(a);
  (void)worker_.turn(false);
  EXPECT_EQ(worker_.reclaim(), 0U);
}

TEST_F(worker_lanes, cut_the_lanes_of_a_peer) {
  opened& a = open();
  const opened& b = open();
  opened& other = open(0);
  block(a);
  worker_.cut(peer_id);
  EXPECT_FALSE(worker_.is_blocked()) << "nobody will read the replies";
  ASSERT_TRUE(send_request(other.requests, note_key, 1, "of another peer"));
  EXPECT_TRUE(worker_.has_work());
  EXPECT_EQ(worker_.turn(false), 1U);
  EXPECT_EQ(worker_.reclaim(), 1U);
  EXPECT_THAT(engine_.via.closed, UnorderedElementsAre(a.id, b.id));
}

TEST_F(worker_lanes, find_no_work_in_cut_lanes) {
  opened& a = open();
  ASSERT_TRUE(send_request(a.requests, note_key, 1, "x"));
  worker_.cut(peer_id);
  EXPECT_FALSE(worker_.has_work());
  EXPECT_EQ(worker_.turn(false), 0U);
  EXPECT_THAT(seen, IsEmpty());
}

TEST_F(worker_lanes, keep_lanes_whose_handlers_wait) {
  opened& a = open();
  engine_.via.ended = {a.id};
  ASSERT_TRUE(send_request(a.requests, reclaim_key, 1));
  EXPECT_EQ(worker_.turn(false), 1U);
  EXPECT_THAT(seen, ElementsAre("kept"));
  EXPECT_EQ(worker_.reclaim(), 0U);
  EXPECT_THAT(engine_.via.closed, ElementsAre(a.id));
}

TEST_F(worker_lanes, refuse_what_they_cannot_run) {
  opened& a = open();
  ASSERT_TRUE(send_request(a.requests, note_key, 7, "x"));
  ASSERT_TRUE(send_request(a.requests, note_key, no_slot, "posted"));
  ASSERT_TRUE(send_request(a.requests, fence_key, 8));
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(worker_.refuse_one());
  EXPECT_FALSE(worker_.refuse_one());
  EXPECT_THAT(seen, IsEmpty());
  const record_view refusal = peek(a.replies);
  EXPECT_EQ(refusal.kind, record_kind::reply_error);
  EXPECT_EQ(slot_of(refusal), 7U);
  EXPECT_THAT(body_of(refusal), ::testing::HasSubstr("nested_too_deep"));
  release(a.replies, refusal);
  EXPECT_EQ(peek(a.replies).kind, record_kind::reply) << "what the layer needs is done";
}

} // namespace
} // namespace farcall::test::worker_test
