// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/engine_test_support.hpp>
#include <farcall/base/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of a thread of the program that is the first worker of its node.
namespace farcall::test::attached_test {
namespace {

using namespace am;

enum key : handler_key { note_key = first_user_key, wait_key, send_key, go_on_key, repeat_key };

engine* tested = nullptr;
int served = 0;
bool may_go_on = false;
std::thread::id served_by;

void note(request_context& /*request*/) noexcept {
  ++served;
  served_by = std::this_thread::get_id();
}

/// Handler that waits until may_go_on is true, which go_on() or the test itself sets.
void wait(request_context& request) noexcept {
  request.release();
  (void)tested->waiter().wait_until([](void* /*none*/) noexcept { return may_go_on; }, nullptr,
                                    true, no_deadline);
  ++served;
}

/// Handler that ends the wait of wait().
void go_on(request_context& /*request*/) noexcept {
  ++served;
  may_go_on = true;
}

void post(handler_key key) {
  requester& l = tested->lane_to(0);
  l.guard().lock();
  std::byte* const to = l.try_reserve_request(0);
  ASSERT_NE(to, nullptr);
  l.commit_request(to, 0, key, nullptr);
  l.guard().unlock();
}

/// Handler that makes a call.
void send(request_context& request) noexcept {
  request.release();
  ++served;
  post(note_key);
}

/// Handler that posts another call of itself.
bool repeats = false;
void repeat(request_context& request) noexcept {
  request.release();
  if (repeats) post(repeat_key);
}

class attached : public testing::Test {
 protected:
  attached() : engine_({&note, &wait, &send, &go_on, &repeat}) {
    tested = &*engine_;
    served = 0;
    may_go_on = false;
    engine_->workers().start(1);
    engine_->workers().attach();
  }
  ~attached() override { engine_->workers().detach(); }

  static bool wait_for(int calls) {
    static int wanted = 0;
    wanted = calls;
    return tested->waiter().wait_until([](void* /*none*/) noexcept { return served >= wanted; },
                                       nullptr, true, clock::now() + std::chrono::seconds(60));
  }

  lone_engine engine_;
};

TEST_F(attached, a_thread_serves_in_waits_and_polls) {
  post(note_key);
  EXPECT_EQ(served, 0);
  engine_->waiter().poll_all();
  EXPECT_EQ(served, 1);
  EXPECT_EQ(served_by, std::this_thread::get_id());
  post(note_key);
  EXPECT_TRUE(wait_for(2));
  EXPECT_EQ(served_by, std::this_thread::get_id());
}

TEST_F(attached, a_wait_sleeps_until_a_request_comes) {
  std::thread caller([] { post(note_key); });
  EXPECT_TRUE(wait_for(1));
  EXPECT_EQ(served_by, std::this_thread::get_id());
  caller.join();
}

TEST_F(attached, a_wait_ends_at_its_deadline) {
  EXPECT_FALSE(tested->waiter().wait_until([](void* /*none*/) noexcept { return false; }, nullptr,
                                           true, clock::now()));
}

TEST_F(attached, a_handler_that_waits_keeps_nobody) {
  post(wait_key);
  post(note_key);
  engine_->waiter().poll_all();
  EXPECT_TRUE(wait_for(1));
  may_go_on = true;
  engine_->waiter().poll_all();
  EXPECT_TRUE(wait_for(2));
}

TEST_F(attached, polling_in_place_serves_too) {
  post(note_key);
  post(send_key);
  // The first call accepts the lane.
  engine_->waiter().poll_all_in_place();
  engine_->waiter().poll_all_in_place();
  EXPECT_EQ(served, 3);
  EXPECT_EQ(served_by, std::this_thread::get_id());
}

TEST_F(attached, a_handler_that_waits_in_place_serves_others_meanwhile) {
  // Accepts the lane.
  post(note_key);
  engine_->waiter().poll_all();
  post(wait_key);
  post(go_on_key);
  engine_->waiter().poll_all_in_place();
  EXPECT_EQ(served, 3);
}

TEST_F(attached, polling_in_place_goes_on_with_handlers_that_wait) {
  post(wait_key);
  engine_->waiter().poll_all();
  EXPECT_EQ(served, 0);
  may_go_on = true;
  engine_->waiter().poll_all_in_place();
  EXPECT_EQ(served, 1);
}

TEST_F(attached, polling_in_place_does_other_work_under_load) {
  // Accepts the lane.
  post(note_key);
  engine_->waiter().poll_all();
  // Readable at first; poll_all() clears it, serving requests does not.
  pollfd completions{engine_->waiter().wait_fd(), POLLIN, 0};
  repeats = true;
  post(repeat_key);
  for (int polls = 0; polls < 3000; ++polls)
    engine_->waiter().poll_all_in_place();
  EXPECT_EQ(::poll(&completions, 1, 0), 0);
  repeats = false;
}

TEST_F(attached, settling_serves_all_and_says_whether_something_was_sent) {
  const auto soon = [] { return clock::now() + std::chrono::seconds(60); };
  EXPECT_FALSE(engine_->settle(soon()));
  post(send_key);
  EXPECT_TRUE(engine_->settle(soon()));
  // The handler's call may come before or after the fence.
  while (engine_->settle(soon())) {
  }
  EXPECT_EQ(served, 2);
  EXPECT_FALSE(engine_->settle(soon()));
}

TEST_F(attached, only_one_engine_is_attached_to_a_thread) {
  lone_engine other({});
  EXPECT_THROW(other->workers().attach(), error);
  EXPECT_TRUE(engine_->workers().is_attached());
  EXPECT_FALSE(other->workers().is_attached());
}

TEST_F(attached, a_child_of_a_fork_is_not) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_free = fiber_scheduler::mine() == nullptr;
    bool is_told = false;
    try {
      engine_->waiter().poll_all();
    } catch (const forked&) {
      is_told = true;
    }
    ::_exit(is_free && is_told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace farcall::test::attached_test
