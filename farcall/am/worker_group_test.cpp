// SPDX-License-Identifier: Apache-2.0

// Tests of lanes that pass between two workers, step by step on one thread. Workers with threads of
// their own are tested in farcall/offload/shared_workers_test.cpp.

#include <farcall/am/requester_test_support.hpp>
#include <farcall/am/worker_group.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::worker_group_test {
namespace {

using namespace am;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> seen;
std::function<void()> inside; ///< code of the next handler

void note(request_context& request) noexcept {
  seen.emplace_back(reinterpret_cast<const char*>(request.arguments()),
                    static_cast<std::size_t>(request.bytes()));
}

void act(request_context& request) noexcept {
  note(request);
  request.release();
  std::exchange(inside, nullptr)();
}

void act_unreleased(request_context& request) noexcept {
  note(request);
  std::exchange(inside, nullptr)();
}

enum key : handler_key { note_key = first_user_key, act_key, unreleased_key };

/// Two workers that share lanes.
class worker_groups : public ::testing::Test {
 protected:
  struct opened {
    std::unique_ptr<ring_pair> rings = std::make_unique<ring_pair>();
    outbox requests = rings->opener().out;
    inbox replies = rings->opener().in;
    std::uint64_t id = 0;
  };

  worker_groups()
      : engine_({&note, &act, &act_unreleased}), group_(workers_, mutex_, engine_.doorbell_of(40)) {
    seen.clear();
    for (std::uint32_t i = 0; i < 2; ++i)
      workers_.push_back(std::make_unique<worker>(*engine_, i, engine_.doorbell_of(i), 512, true));
  }

  opened& open(worker& w) {
    lanes_.push_back(std::make_unique<opened>());
    opened& made = *lanes_.back();
    made.id = lanes_.size();
    endpoint c = made.rings->server();
    c.id = made.id;
    EXPECT_TRUE(w.add(engine_.via, c));
    return made;
  }

  static void send(opened& lane, const std::string& what, handler_key k = note_key) {
    ASSERT_TRUE(send_request(lane.requests, k, 1, what));
  }
  static std::size_t replies_of(opened& lane) {
    std::size_t n = 0;
    for (record_view r = peek(lane.replies); r.kind == record_kind::reply; r = peek(lane.replies)) {
      ++n;
      release(lane.replies, r);
    }
    return n;
  }

  worker& home() { return *workers_[0]; }
  worker& idle() { return *workers_[1]; }

  idle_engine engine_;
  std::vector<std::unique_ptr<opened>> lanes_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::mutex mutex_;
  worker_group group_;
};

TEST_F(worker_groups, take_a_lane_and_give_it_back) {
  opened& a = open(home());
  send(a, "at home");
  EXPECT_EQ(home().turn(false), 1U);
  send(a, "elsewhere");
  EXPECT_TRUE(idle().take(home(), 0));
  EXPECT_TRUE(home().lends());
  EXPECT_FALSE(home().has_work());
  EXPECT_TRUE(idle().has_work());
  EXPECT_EQ(home().turn(false), 0U);
  EXPECT_EQ(idle().turn(false), 1U);
  send(a, "at home again");
  idle().give_back(true);
  EXPECT_FALSE(home().lends());
  EXPECT_EQ(idle().turn(false), 0U);
  EXPECT_EQ(home().turn(false), 1U);
  EXPECT_THAT(seen, ElementsAre("at home", "elsewhere", "at home again"));
  EXPECT_EQ(replies_of(a), 3U);
}

TEST_F(worker_groups, take_their_own_lanes_back) {
  opened& a = open(home());
  send(a, "x");
  EXPECT_TRUE(idle().take(home(), 0));
  EXPECT_TRUE(home().take(idle(), 0));
  EXPECT_FALSE(home().lends());
  EXPECT_EQ(home().turn(false), 1U);
  EXPECT_EQ(idle().lanes_here(), 0U);
}

TEST_F(worker_groups, take_what_has_waited) {
  opened& a = open(home());
  opened& b = open(home());
  send(a, "keeps the worker", act_key);
  inside = [&] {
    EXPECT_FALSE(group_.take_over(idle())) << "nothing waits";
    send(a, "behind it");
    send(b, "of another");
    EXPECT_FALSE(group_.take_over(idle())) << "seen for the first time";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(group_.take_over(idle()));
    EXPECT_EQ(idle().turn(false), 1U);
    send(b, "and again");
    EXPECT_EQ(idle().turn(false), 1U);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(group_.take_over(idle())) << "a lane whose handler runs stays";
  };
  EXPECT_EQ(home().turn(false), 2U);
  EXPECT_THAT(seen, ElementsAre("keeps the worker", "of another", "and again", "behind it"));
}

TEST_F(worker_groups, leave_those_alone_that_are_idle_or_asleep) {
  opened& a = open(home());
  send(a, "x");
  home().set_asleep(true);
  EXPECT_FALSE(group_.take_over(idle(), true)) << "it is awake at once";
  home().set_asleep(false);
  home().note_idle();
  EXPECT_FALSE(group_.take_over(idle(), true)) << "it looks at its lanes";
  EXPECT_TRUE(group_.take_over(idle(), true));
}

TEST_F(worker_groups, serve_lanes_of_handlers_that_wait) {
  opened& a = open(home());
  send(a, "waits", act_key);
  send(a, "next");
  send(a, "last");
  inside = [&] {
    const worker::pause waits;
    EXPECT_TRUE(idle().take(home(), 0));
    EXPECT_EQ(idle().turn(true), 1U);
    EXPECT_EQ(home().reclaim(), 1U);
  };
  EXPECT_EQ(home().turn(false), 1U) << "the turn ends where another may have the lane";
  EXPECT_EQ(idle().turn(false), 1U);
  EXPECT_EQ(replies_of(a), 3U);
}

TEST_F(worker_groups, keep_lanes_whose_arguments_are_still_read) {
  opened& a = open(home());
  send(a, "reads on", unreleased_key);
  inside = [&] {
    const worker::pause waits;
    EXPECT_FALSE(idle().take(home(), 0));
    EXPECT_EQ(home().turn(true), 0U) << "nor does the next one begin";
  };
  send(a, "behind it");
  EXPECT_EQ(home().turn(false), 1U);
  EXPECT_TRUE(idle().take(home(), 0)) << "now it may go";
  EXPECT_EQ(idle().turn(false), 1U);
  EXPECT_THAT(seen, ElementsAre("reads on", "behind it"));
}

TEST_F(worker_groups, do_not_destroy_what_others_have) {
  opened& a = open(home());
  EXPECT_TRUE(idle().take(home(), 0));
  engine_.via.ended = {a.id};
  EXPECT_EQ(home().reclaim(), 1U);
  EXPECT_THAT(engine_.via.closed, IsEmpty());
  (void)idle().reclaim();
  EXPECT_THAT(engine_.via.closed, IsEmpty()) << "it is not theirs to destroy";
  EXPECT_EQ(home().reclaim(), 0U);
  EXPECT_THAT(engine_.via.closed, ElementsAre(a.id));
  EXPECT_EQ(home().turn(false) + idle().turn(false), 0U);
}

TEST_F(worker_groups, do_not_destroy_what_a_handler_elsewhere_replies_to) {
  opened& a = open(home());
  send(a, "x", act_key);
  inside = [&] {
    engine_.via.ended = {a.id};
    const worker::pause waits;
    idle().give_back(true);
    EXPECT_EQ(home().reclaim(), 1U);
  };
  EXPECT_TRUE(idle().take(home(), 0));
  EXPECT_EQ(idle().turn(false), 1U);
  EXPECT_EQ(replies_of(a), 1U);
  EXPECT_EQ(home().reclaim(), 0U);
}

TEST_F(worker_groups, give_cut_lanes_back) {
  const opened& a = open(home());
  EXPECT_TRUE(idle().take(home(), 0));
  home().cut(peer_id);
  EXPECT_FALSE(idle().has_work());
  (void)idle().reclaim();
  EXPECT_EQ(home().reclaim(), 0U);
  EXPECT_THAT(engine_.via.closed, ElementsAre(a.id));
}

TEST_F(worker_groups, give_back_once_the_home_has_been_idle) {
  (void)open(home());
  EXPECT_TRUE(idle().take(home(), 0));
  idle().give_back(false);
  EXPECT_TRUE(home().lends()) << "it is still busy";
  home().note_idle();
  idle().give_back(false);
  EXPECT_FALSE(home().lends());
}

TEST_F(worker_groups, sleep_for_the_homes_of_what_they_took) {
  (void)open(home());
  EXPECT_TRUE(idle().take(home(), 0));
  std::vector<doorbell*> all;
  idle().add_doorbells(all);
  EXPECT_THAT(all, ElementsAre(&engine_.doorbell_of(1), &engine_.doorbell_of(0)));
}

TEST_F(worker_groups, use_places_again) {
  for (int i = 0; i < 20; ++i)
    (void)open(home());
  for (int round = 0; round < 100; ++round) {
    for (std::uint32_t i = 0; i < 20; ++i)
      EXPECT_TRUE(idle().take(home(), i));
    opened& own = open(idle());
    for (const auto& l : lanes_)
      send(*l, "x");
    for (int turns = 0; turns < 100; ++turns)
      (void)idle().turn(false);
    EXPECT_EQ(seen.size(), lanes_.size());
    seen.clear();
    for (const auto& l : lanes_)
      EXPECT_EQ(replies_of(*l), 1U);
    idle().give_back(true);
    engine_.via.ended = {own.id};
    EXPECT_EQ(idle().reclaim(), 0U);
    lanes_.pop_back();
  }
  EXPECT_EQ(home().lanes_here(), 20U);
}

TEST_F(worker_groups, are_watched_while_one_with_several_lanes_is_awake) {
  (void)open(home());
  group_.is_awake(home());
  EXPECT_EQ(group_.watch(), no_deadline) << "a single lane keeps nobody waiting";
  opened& b = open(home());
  group_.is_awake(home());
  EXPECT_NE(group_.watch(), no_deadline);
  idle().set_asleep(true);
  armed_doorbell wakes{&idle().wakes()};
  arm({&wakes, 1});
  (void)group_.watch();
  EXPECT_EQ(wakes.which->word.load(std::memory_order_relaxed), wakes.seen) << "nothing waits";
  send(b, "x");
  (void)group_.watch();
  EXPECT_NE(wakes.which->word.load(std::memory_order_relaxed), wakes.seen);
  home().set_asleep(true);
  EXPECT_EQ(group_.watch(), no_deadline) << "all sleep";
}

} // namespace
} // namespace farcall::test::worker_group_test
