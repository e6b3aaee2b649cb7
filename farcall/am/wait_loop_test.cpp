// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/wait_loop.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace farcall::test::wait_loop_test {
namespace {

using namespace am;
using state = wait_condition::state;

/// Scope whose results the test sets; counts its calls.
class scripted_scope {
 public:
  state poll(spin_wait& /*spinning*/) {
    ++polls;
    if (polls == ends_with_poll) return state::over;
    return polls <= advances ? state::advanced : state::pending;
  }
  bool may_end(const spin_wait& spinning) {
    ++questions;
    return spinning.deadline_has_passed();
  }
  bool has_work() {
    ++last_polls;
    return last_polls <= finds;
  }
  void sleep() {
    ++sleeps;
    if (ends_with_sleep) ends_with_poll = polls + 1;
  }

  int ends_with_poll = 0;
  bool ends_with_sleep = false;
  int advances = 0; ///< polls that find something
  int finds = 0;    ///< calls of has_work() that return true
  int polls = 0;
  int questions = 0;
  int last_polls = 0;
  int sleeps = 0;
};

class wait_loops : public ::testing::Test {
 protected:
  void run(const wait_policy& policy, time_point deadline = no_deadline) {
    spin_wait spinning(policy, oversubscribed_, deadline);
    run_wait_loop(scope_, spinning);
  }

  static constexpr wait_policy no_spin{std::chrono::nanoseconds(0), std::chrono::nanoseconds(0)};
  static constexpr wait_policy long_spin{std::chrono::hours(1), std::chrono::hours(1)};

  scripted_scope scope_;
  std::atomic<bool> oversubscribed_{false};
};

TEST_F(wait_loops, end_when_the_wait_is_over) {
  scope_.ends_with_poll = 1;
  run(no_spin);
  EXPECT_EQ(scope_.polls, 1);
  EXPECT_EQ(scope_.questions, 0);
}

TEST_F(wait_loops, poll_many_times_before_they_sleep) {
  scope_.ends_with_poll = 1000;
  run(long_spin);
  EXPECT_EQ(scope_.polls, 1000);
  EXPECT_EQ(scope_.last_polls, 0);
  EXPECT_EQ(scope_.sleeps, 0);
}

TEST_F(wait_loops, sleep_after_a_last_look_finds_nothing) {
  scope_.finds = 2;
  scope_.ends_with_sleep = true;
  run(no_spin);
  EXPECT_EQ(scope_.last_polls, 3);
  EXPECT_EQ(scope_.sleeps, 1);
}

TEST_F(wait_loops, poll_at_once_after_a_sleep) {
  scope_.ends_with_sleep = true;
  run(no_spin);
  const int polls_before_sleep = scope_.polls - 1;
  EXPECT_GE(polls_before_sleep, 1);
  EXPECT_EQ(scope_.sleeps, 1);
}

TEST_F(wait_loops, spin_anew_once_a_poll_finds_something) {
  scope_.advances = 500;
  scope_.ends_with_poll = 501;
  run(no_spin);
  EXPECT_EQ(scope_.questions, 500) << "one after each of these polls";
  EXPECT_EQ(scope_.sleeps, 0);
}

TEST_F(wait_loops, end_at_the_deadline_without_a_sleep) {
  run(no_spin, time_point::min() + std::chrono::hours(1));
  EXPECT_EQ(scope_.sleeps, 0);
  EXPECT_EQ(scope_.questions, 1);
}

TEST_F(wait_loops, end_at_the_deadline_although_polls_find_something) {
  scope_.advances = 1000;
  run(long_spin, time_point::min() + std::chrono::hours(1));
  EXPECT_EQ(scope_.polls, 1);
}

} // namespace
} // namespace farcall::test::wait_loop_test
