// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/engine_test_support.hpp>
#include <farcall/am/interrupt.hpp>
#include <farcall/base/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

/// Tests of threads of the program that act as the first worker of their node, one at a time.
namespace farcall::test::pulled_worker_test {
namespace {

using namespace am;
using outcome = pulled_worker::outcome;

enum key : handler_key { note_key = first_user_key, wait_key, pull_key };

engine* tested = nullptr;
std::atomic<int> served{0};
std::atomic<bool> may_go_on{false};
std::atomic<bool> was_refused{false};
std::atomic<std::thread::id> served_by;

void note(request_context& /*request*/) noexcept {
  served_by = std::this_thread::get_id();
  ++served;
  tested->waiter().notify();
}

bool is_one_served(void* /*none*/) noexcept { return served == 1; }

/// Handler that waits until may_go_on is true.
void wait(request_context& request) noexcept {
  request.release();
  (void)tested->waiter().wait_until([](void* /*none*/) noexcept { return may_go_on.load(); },
                                    nullptr, false, no_deadline);
  ++served;
}

/// Handler that tries to act as the worker itself.
void pull(request_context& /*request*/) noexcept {
  try {
    (void)tested->workers().pulled()->serve_until(&is_one_served, nullptr, no_deadline);
  } catch (const error&) {
    was_refused = true;
  }
  ++served;
}

void post(handler_key key) {
  requester& l = tested->lane_to(0);
  l.guard().lock();
  std::byte* const to = l.try_reserve_request(0);
  ASSERT_NE(to, nullptr);
  l.commit_request(to, 0, key, nullptr);
  l.guard().unlock();
}

class pulled : public testing::Test {
 protected:
  pulled() : engine_({&note, &wait, &pull}, 1, nullptr, true) {
    tested = &*engine_;
    served = 0;
    may_go_on = false;
    was_refused = false;
    engine_->workers().start(1);
  }

  [[nodiscard]] outcome serve_until_one(time_point deadline = no_deadline) {
    return engine_->workers().pulled()->serve_until(&is_one_served, nullptr, deadline);
  }

  lone_engine engine_;
};

TEST_F(pulled, serves_on_the_calling_thread) {
  post(note_key);
  EXPECT_EQ(serve_until_one(), outcome::holds);
  EXPECT_EQ(served_by.load(), std::this_thread::get_id());
}

TEST_F(pulled, ends_at_a_deadline) {
  EXPECT_EQ(serve_until_one(clock::now()), outcome::late);
  EXPECT_EQ(serve_until_one(clock::now() + std::chrono::milliseconds(5)), outcome::late);
}

TEST_F(pulled, accepts_lanes_even_if_each_call_polls_once) {
  post(note_key);
  while (serve_until_one(clock::now()) != outcome::holds) {
  }
  EXPECT_EQ(served, 1);
}

TEST_F(pulled, wakes_from_its_sleep) {
  std::thread caller([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    post(note_key);
  });
  EXPECT_EQ(serve_until_one(), outcome::holds);
  caller.join();
}

TEST_F(pulled, is_replaced_by_another_worker_while_no_thread_serves) {
  // Accepts the lane.
  post(note_key);
  EXPECT_EQ(serve_until_one(), outcome::holds);
  post(note_key);
  EXPECT_TRUE(engine_->waiter().wait_until([](void* /*none*/) noexcept { return served == 2; },
                                           nullptr, false,
                                           clock::now() + std::chrono::seconds(60)));
  EXPECT_NE(served_by.load(), std::this_thread::get_id());
}

TEST_F(pulled, lets_one_thread_serve_and_others_wait) {
  std::atomic<int> held{0};
  const auto serve = [&] {
    if (serve_until_one() == outcome::holds) ++held;
  };
  std::thread first(serve);
  std::thread second(serve);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  post(note_key);
  first.join();
  second.join();
  EXPECT_EQ(held, 2);
  EXPECT_EQ(served, 1);
}

TEST_F(pulled, goes_on_with_handlers_that_wait) {
  post(wait_key);
  EXPECT_EQ(serve_until_one(clock::now() + std::chrono::milliseconds(5)), outcome::late);
  EXPECT_EQ(served, 0);
  may_go_on = true;
  EXPECT_EQ(serve_until_one(), outcome::holds);
}

TEST_F(pulled, is_not_for_handlers) {
  post(pull_key);
  EXPECT_EQ(serve_until_one(), outcome::holds);
  EXPECT_TRUE(was_refused);
}

TEST_F(pulled, ends_when_the_engine_stops_and_all_is_served) {
  post(note_key);
  engine_->workers().stop_when_done();
  EXPECT_EQ(engine_->workers().pulled()->serve_until([](void* /*none*/) noexcept { return false; },
                                                     nullptr, no_deadline),
            outcome::ended);
  EXPECT_EQ(served, 1);
}

TEST_F(pulled, is_left_early_if_its_thread_is_interrupted) {
  thread_interrupt = {[](void* /*none*/) { return true; }, nullptr};
  {
    const interruptible waits;
    EXPECT_THROW((void)serve_until_one(), interrupted);
  }
  thread_interrupt = {};
  post(note_key);
  EXPECT_EQ(serve_until_one(), outcome::holds);
}

TEST_F(pulled, leaves_a_forked_child_alone) {
  post(note_key);
  EXPECT_EQ(serve_until_one(), outcome::holds);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      (void)serve_until_one();
    } catch (const forked&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace farcall::test::pulled_worker_test
