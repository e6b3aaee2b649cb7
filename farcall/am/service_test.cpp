#include <farcall/am/engine.hpp>
#include <farcall/am/requester_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace farcall::test::service_test {
namespace {

using namespace am;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint32_t own_doorbell = 50; ///< one of those of lanes with workers of their own

void thread_of(request_context& request, const void* /*context*/) noexcept {
  const auto id = static_cast<std::uint64_t>(::gettid());
  std::byte* to = request.reserve_reply(sizeof id);
  std::memcpy(to, &id, sizeof id);
  request.commit_reply(to, sizeof id);
}

std::atomic<bool> gate_is_open{false};

void hold(request_context& request, const void* context) noexcept {
  while (!gate_is_open)
    std::this_thread::yield();
  thread_of(request, context);
}

void reply_much(request_context& request, const void* /*context*/) noexcept {
  std::byte* to = request.reserve_reply(500);
  std::memset(to, 'x', 500);
  request.commit_reply(to, 500);
}

enum key : handler_key { thread_key = first_user_key, hold_key, much_key };

std::vector<handler> handlers() {
  return {{&thread_of, nullptr}, {&hold, nullptr}, {&reply_much, nullptr}};
}

/// A lane that a peer has opened to the engine, as the peer sees it.
struct opened {
  ring_pair rings;
  outbox requests = rings.opener().out;
  inbox replies = rings.opener().in;
  std::uint64_t id = 0;

  /// Replies that have come so far: which thread has given each.
  std::vector<std::string> take_replies() {
    std::vector<std::string> all;
    for (record_view r = peek(replies); r.kind == record_kind::reply; r = peek(replies)) {
      all.push_back(body_of(r));
      release(replies, r);
    }
    return all;
  }
  /// The next reply, for which another thread may have to do something first.
  std::string wait_for_reply() {
    while (!peek(replies))
      std::this_thread::yield();
    const record_view r = peek(replies);
    std::string body = body_of(r);
    release(replies, r);
    return body;
  }
};

class services : public ::testing::Test {
 protected:
  services() { gate_is_open = false; }
  ~services() override { gate_is_open = true; }

  opened& arrive(std::uint32_t worker = 0, bool own_worker = false, node_id from = peer_id) {
    lanes_.push_back(std::make_unique<opened>());
    endpoint c = lanes_.back()->rings.server();
    c.peer = from;
    c.worker = worker;
    c.own_worker = own_worker;
    lanes_.back()->id = engine_.via.arrive(c);
    return *lanes_.back();
  }

  /// Serves what has arrived, and only that: the engine has been told to stop.
  void serve_what_is_there() {
    engine_->stop();
    engine_->serve(0);
  }

  static std::string this_thread() { return bytes_of(static_cast<std::uint64_t>(::gettid())); }

  std::vector<std::unique_ptr<opened>> lanes_;
  idle_engine engine_{handlers()};
};

TEST_F(services, serve_what_has_arrived_before_they_stop) {
  opened& lane = arrive();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
  serve_what_is_there();
  EXPECT_THAT(lane.take_replies(), ElementsAre(this_thread(), this_thread(), this_thread()));
}

TEST_F(services, stop_although_nobody_reads_their_replies) {
  opened& lane = arrive();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(send_request(lane.requests, much_key, 1));
  serve_what_is_there();
  const std::size_t replied = lane.take_replies().size();
  EXPECT_GT(replied, 0U);
  EXPECT_LT(replied, 20U);
}

TEST_F(services, notify_each_sleeper_of_kept_replies_once) {
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
      engine_->deferred_reply_was_sent(true);
    for (std::size_t i = 0; i < idle_engine::doorbell_count; ++i)
      EXPECT_EQ(notifications(i) - before[i], i == sleeper ? 1U : 0U) << "doorbell " << i;
  }
}

TEST_F(services, serve_lanes_that_name_an_impossible_worker) {
  opened& lane = arrive(77);
  ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
  serve_what_is_there();
  EXPECT_THAT(lane.take_replies(), ElementsAre(this_thread()));
}

TEST_F(services, close_lanes_of_nodes_that_do_not_exist) {
  const opened& lane = arrive(0, false, 2);
  serve_what_is_there();
  EXPECT_THAT(engine_.via.closed, ElementsAre(lane.id));
}

TEST_F(services, close_lanes_of_nodes_that_have_failed) {
  engine_->fail(peer_id, "it is gone");
  EXPECT_THAT(engine_.via.forgotten, ElementsAre(peer_id));
  const opened& lane = arrive();
  serve_what_is_there();
  EXPECT_THAT(engine_.via.closed, ElementsAre(lane.id));
}

TEST_F(services, cut_lanes_of_a_node_that_fails) {
  opened& lane = arrive();
  serve_what_is_there();
  EXPECT_THAT(engine_.via.closed, IsEmpty());
  engine_->fail(peer_id, "it is gone");
  ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
  engine_->serve(0);
  EXPECT_THAT(lane.take_replies(), IsEmpty());
}

TEST_F(services, refuse_lanes_that_are_too_many) {
  for (int i = 0; i < 512; ++i)
    (void)arrive();
  opened& one_more = arrive();
  serve_what_is_there();
  const record_view why = peek(one_more.replies);
  EXPECT_EQ(why.kind, record_kind::refusal);
  EXPECT_THAT(body_of(why), HasSubstr("too many lanes"));
  release(one_more.replies, why);
  EXPECT_EQ(peek(one_more.replies).kind, record_kind::corrupt) << "its calls must end";
  EXPECT_THAT(engine_.via.closed, Not(Contains(one_more.id))) << "the peer may still write to it";

  ASSERT_TRUE(send_request(one_more.requests, thread_key, 1));
  engine_.via.ended = {one_more.id};
  engine_->serve(0);
  EXPECT_THAT(engine_.via.closed, Contains(one_more.id));
}

TEST_F(services, give_lanes_that_ask_for_it_a_thread_of_their_own) {
  opened& own = arrive(own_doorbell, true);
  opened& another = arrive(own_doorbell, true);
  opened& shared = arrive();
  for (opened* lane : {&own, &own, &another, &shared})
    ASSERT_TRUE(send_request(lane->requests, thread_key, 1));
  serve_what_is_there();
  const std::string first = own.wait_for_reply();
  EXPECT_NE(first, this_thread());
  EXPECT_EQ(own.wait_for_reply(), first);
  EXPECT_NE(another.wait_for_reply(), first);
  EXPECT_THAT(shared.take_replies(), ElementsAre(this_thread()));
}

/// What comes over them would wake nobody.
TEST_F(services, close_lanes_whose_own_thread_has_an_impossible_doorbell) {
  std::vector<std::uint64_t> ids;
  for (const std::uint32_t impossible : {0U, 63U, 64U, UINT32_MAX})
    ids.push_back(arrive(impossible, true).id);
  serve_what_is_there();
  EXPECT_EQ(engine_.via.closed, ids);
}

TEST_F(services, wake_up_for_requests) {
  engine_->start_workers(0);
  opened& lane = arrive();
  notify(engine_.doorbell_of(0));
  for (int i = 0; i < 3; ++i) {
    // Nothing notifies a worker here by itself: this notification is all that the worker gets.
    while ((engine_.doorbell_of(0).word.load() & armed_flag) == 0)
      std::this_thread::yield();
    ASSERT_TRUE(send_request(lane.requests, thread_key, 1));
    notify(engine_.doorbell_of(0));
    EXPECT_NE(lane.wait_for_reply(), this_thread());
  }
}

TEST_F(services, accept_lanes_while_their_workers_are_busy) {
  engine_->start_workers(0);
  opened& busy = arrive();
  ASSERT_TRUE(send_request(busy.requests, hold_key, 1));
  notify(engine_.doorbell_of(0));
  opened& own = arrive(own_doorbell, true);
  ASSERT_TRUE(send_request(own.requests, thread_key, 1));
  notify(engine_.doorbell_of(idle_engine::doorbell_count - 1));
  EXPECT_NE(own.wait_for_reply(), this_thread());
  EXPECT_THAT(busy.take_replies(), IsEmpty());
  gate_is_open = true;
  (void)busy.wait_for_reply();
}

TEST_F(services, stop_twice) {
  engine_->start_workers(0);
  engine_->stop();
  engine_->stop();
  engine_->shut_down("done");
  engine_->shut_down("done again");
}

} // namespace
} // namespace farcall::test::service_test
