// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/requester_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::waiter_test {
namespace {

using namespace am;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr handler_key some_key = 20;

time_point in_good_time() { return clock::now() + std::chrono::seconds(60); }
time_point at_once() { return clock::now(); }

std::vector<std::string> seen;
std::function<void()> when_served;

void note(request_context& request) noexcept {
  seen.emplace_back(reinterpret_cast<const char*>(request.arguments()),
                    static_cast<std::size_t>(request.bytes()));
  request.release();
  if (when_served) std::exchange(when_served, nullptr)();
}

std::vector<handler_function> handlers() { return {&note}; }

void read_nothing(pending_call& /*slot*/, reply_action /*action*/, reply_view /*what*/) {}

class counting final : public continuation {
 public:
  void run() noexcept override { ++runs; }
  int runs = 0;
};

/// A thread that calls a peer, and the peer's ends of its lane.
class caller {
 public:
  caller()
      : engine(handlers()), lane_(&engine->lane_to(peer_id)),
        peer_requests(engine.via.opened.at(0)->server().in),
        peer_replies(engine.via.opened.at(0)->server().out) {
    seen.clear();
    when_served = nullptr;
  }

  pending_call& call() {
    lane_->guard().lock();
    pending_call& slot = lane_->take_call(&read_nothing);
    std::byte* to = lane_->try_reserve_request(0);
    EXPECT_NE(to, nullptr);
    lane_->commit_request(to, 0, some_key, &slot);
    lane_->guard().unlock();
    return slot;
  }
  /// Replies as the peer.
  void reply(const pending_call& slot) {
    EXPECT_TRUE(send_record(peer_replies, record_kind::reply, slot.index()));
  }
  void drain() {
    while (const record_view record = peek(peer_requests))
      release(peer_requests, record);
  }
  /// Waits until a thread sleeps on the doorbell of the lane, or is about to.
  void wait_for_sleeper() {
    while ((lane_->wakes().word.load() & armed_flag) == 0)
      std::this_thread::yield();
  }
  /// Fills the lane and leaves it locked.
  void fill() {
    lane_->guard().lock();
    while (std::byte* to = lane_->try_reserve_request(100))
      lane_->commit_request(to, 100, some_key, nullptr);
  }

  /// Opens a lane as the peer, and sends a request in it.
  void arrive(const std::string& arguments) {
    arrived.push_back(std::make_unique<ring_pair>());
    requests.push_back(arrived.back()->opener().out);
    EXPECT_TRUE(send_request(requests.back(), first_user_key, no_slot, arguments));
    (void)engine.via.arrive(arrived.back()->server());
  }

  idle_engine engine;
  requester* lane_;
  inbox peer_requests;
  outbox peer_replies;
  std::vector<std::unique_ptr<ring_pair>> arrived;
  std::vector<outbox> requests;
};

class waiting : public ::testing::Test {
 protected:
  caller caller_;
  idle_engine& engine_ = caller_.engine;
};

// ---- for replies --------------------------------------------------------------------------------

TEST_F(waiting, takes_replies_that_are_there) {
  pending_call& slot = caller_.call();
  caller_.reply(slot);
  EXPECT_FALSE(slot.ready());
  EXPECT_TRUE(engine_->wait(slot, in_good_time()));
  EXPECT_TRUE(slot.ready());
}

TEST_F(waiting, needs_no_time_for_what_is_ready) {
  pending_call& slot = caller_.call();
  caller_.reply(slot);
  engine_->poll(slot);
  EXPECT_TRUE(engine_->wait(slot, at_once() - std::chrono::hours(1)));
}

TEST_F(waiting, ends_with_the_deadline) {
  pending_call& slot = caller_.call();
  EXPECT_FALSE(engine_->wait(slot, at_once()));
  EXPECT_FALSE(engine_->wait(slot, at_once() + std::chrono::milliseconds(10)));
  EXPECT_FALSE(slot.ready());
}

TEST_F(waiting, is_woken_by_the_doorbell_of_the_lane) {
  pending_call& slot = caller_.call();
  std::thread peer([&] {
    caller_.wait_for_sleeper();
    caller_.reply(slot);
    notify(caller_.lane_->wakes());
  });
  EXPECT_TRUE(engine_->wait(slot));
  peer.join();
}

TEST_F(waiting, runs_the_continuations_of_replies_that_it_takes) {
  counting then;
  pending_call& other = caller_.call();
  pending_call& slot = caller_.call();
  other.attach(&then);
  caller_.reply(other);
  caller_.reply(slot);
  EXPECT_TRUE(engine_->wait(slot, in_good_time()));
  EXPECT_EQ(then.runs, 1);
}

TEST_F(waiting, ends_when_the_node_fails) {
  pending_call& slot = caller_.call();
  std::thread failing([&] {
    caller_.wait_for_sleeper();
    engine_->fail(peer_id, "it is gone");
  });
  EXPECT_TRUE(engine_->wait(slot));
  failing.join();
  EXPECT_THROW(std::rethrow_exception(slot.failure()), node_failed);
}

TEST_F(waiting, does_not_happen_while_polling) {
  pending_call& slot = caller_.call();
  engine_->poll(slot);
  EXPECT_FALSE(slot.ready());
  caller_.reply(slot);
  engine_->poll(slot);
  EXPECT_TRUE(slot.ready());
}

TEST_F(waiting, takes_replies_of_all_threads_in_poll_all) {
  pending_call& slot = caller_.call();
  caller_.reply(slot);
  std::thread([&] { engine_->waiter().poll_all(); }).join();
  EXPECT_TRUE(slot.ready());
}

// ---- for local events ---------------------------------------------------------------------------

TEST_F(waiting, takes_replies_in_that_complete_an_event) {
  struct completing final : continuation {
    explicit completing(local_completion& e) : event(&e) {}
    void run() noexcept override { event->complete(nullptr); }
    local_completion* event;
  };
  auto* const event = new local_completion(&*engine_);
  completing then(*event);
  pending_call& slot = caller_.call();
  slot.attach(&then);
  caller_.reply(slot);
  EXPECT_TRUE(engine_->wait(*event, in_good_time()));
  event->release();
}

TEST_F(waiting, helps_with_an_event_until_nothing_is_left) {
  class helped final : public local_completion {
   public:
    using local_completion::local_completion;
    bool help(time_point /*until*/) noexcept override {
      if (left == 0) return false;
      if (--left == 0) complete(nullptr);
      return true;
    }
    int left = 1000;
  };
  auto* const event = new helped(&*engine_);
  EXPECT_TRUE(engine_->wait(*event, in_good_time()));
  EXPECT_EQ(event->left, 0);
  event->release();
  auto* const polled = new helped(&*engine_);
  engine_->poll(*polled);
  EXPECT_EQ(polled->left, 999) << "one piece at a time";
  while (!polled->ready())
    engine_->poll(*polled);
  polled->release();
}

// ---- for space ----------------------------------------------------------------------------------

TEST_F(waiting, finds_space_once_the_peer_has_read) {
  caller_.fill();
  std::thread peer([&] { caller_.drain(); });
  EXPECT_NE(engine_->wait_for_space(*caller_.lane_, 100, in_good_time()), nullptr);
  caller_.lane_->guard().unlock();
  peer.join();
}

TEST_F(waiting, finds_no_space_and_releases_the_guard) {
  caller_.fill();
  EXPECT_THROW((void)engine_->wait_for_space(*caller_.lane_, 100, at_once()), timeout);
  std::thread([&] {
    caller_.lane_->guard().lock();
    caller_.lane_->guard().unlock();
  }).join();
}

TEST_F(waiting, finds_no_space_in_a_lane_that_fails) {
  caller_.fill();
  caller_.lane_->fail(std::make_exception_ptr(error("it is gone")));
  EXPECT_EQ(engine_->wait_for_space(*caller_.lane_, 100, in_good_time()), nullptr);
  caller_.lane_->guard().unlock();
}

TEST_F(waiting, does_not_happen_for_space_if_it_must_not) {
  pending_call& slot = caller_.call();
  caller_.reply(slot);
  caller_.fill();
  EXPECT_THROW((void)engine_->wait_for_space(*caller_.lane_, 100, without_waiting), timeout);
  EXPECT_FALSE(slot.ready()) << "no reply was taken";
  caller_.lane_->guard().lock();
  caller_.lane_->fail(std::make_exception_ptr(error("it is gone")));
  EXPECT_EQ(engine_->wait_for_space(*caller_.lane_, 100, without_waiting), nullptr);
  caller_.lane_->guard().unlock();
}

TEST_F(waiting, takes_replies_while_it_waits_for_space) {
  pending_call& slot = caller_.call();
  counting then;
  slot.attach(&then);
  caller_.reply(slot);
  caller_.fill();
  EXPECT_THROW((void)engine_->wait_for_space(*caller_.lane_, 100, at_once()), timeout);
  EXPECT_TRUE(slot.ready());
  EXPECT_EQ(then.runs, 1);
}

// ---- what a thread does while it waits ----------------------------------------------------------

TEST_F(waiting, serves_nothing_on_a_thread_of_the_users) {
  pending_call& slot = caller_.call();
  caller_.arrive("for the worker");
  EXPECT_FALSE(engine_->wait(slot, at_once() + std::chrono::milliseconds(10)));
  EXPECT_THAT(seen, IsEmpty());
}

TEST_F(waiting, serves_inside_a_handler) {
  pending_call& first = caller_.call();
  pending_call& second = caller_.call();
  caller_.arrive("first");
  when_served = [&] {
    EXPECT_TRUE(send_request(caller_.requests.back(), first_user_key, no_slot, "second"));
    when_served = [&] {
      EXPECT_TRUE(send_request(caller_.requests.back(), first_user_key, no_slot, "third"));
      when_served = [&] { caller_.reply(first); };
      // On a fiber: the fiber below it continues first.
      EXPECT_TRUE(engine_->wait(second, in_good_time()));
      seen.emplace_back("second ends");
    };
    EXPECT_TRUE(engine_->wait(first, in_good_time()));
    seen.emplace_back("first ends");
    caller_.reply(second);
  };
  engine_->workers().stop();
  engine_->workers().serve(0);
  EXPECT_THAT(seen, ElementsAre("first", "second", "third", "first ends", "second ends"));
}

TEST_F(waiting, lets_others_run_when_a_handler_polls) {
  pending_call& slot = caller_.call();
  caller_.arrive("first");
  when_served = [&] {
    EXPECT_TRUE(send_request(caller_.requests.back(), first_user_key, no_slot, "second"));
    when_served = [&] { caller_.reply(slot); };
    while (!slot.ready())
      engine_->poll(slot);
  };
  engine_->workers().stop();
  engine_->workers().serve(0);
  EXPECT_THAT(seen, ElementsAre("first", "second"));
}

TEST_F(waiting, ends_with_the_deadline_whatever_waits_on_the_thread) {
  pending_call& outer = caller_.call();
  pending_call& inner = caller_.call();
  caller_.arrive("first");
  bool outer_ended = false;
  when_served = [&] {
    EXPECT_TRUE(send_request(caller_.requests.back(), first_user_key, no_slot, "second"));
    when_served = [&] {
      EXPECT_TRUE(engine_->wait(inner, in_good_time()));
      EXPECT_TRUE(outer_ended) << "the wait below is over";
    };
    EXPECT_FALSE(engine_->wait(outer, at_once() + std::chrono::milliseconds(10)));
    outer_ended = true;
    caller_.reply(inner);
  };
  engine_->workers().stop();
  engine_->workers().serve(0);
  EXPECT_TRUE(inner.ready());
}

} // namespace
} // namespace farcall::test::waiter_test
