// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/spin_wait.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <sched.h>

namespace farcall::am::spin_wait_test {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

/// Policies that spin not at all or for hours, so that the tests do not depend on speed.
constexpr wait_policy not_at_all{nanoseconds(0), nanoseconds(0)};
constexpr wait_policy for_hours{hours(10), hours(10)};

/// Returns the number of iterations, at most `most`, until the wait is over.
unsigned turns_of(spin_wait& p, unsigned most = 100'000) {
  unsigned turns = 1;
  while (!p.is_over() && turns < most)
    ++turns;
  return turns;
}

TEST(spin_wait, is_over_at_once_without_spin_time) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p(not_at_all, oversubscribed);
  EXPECT_EQ(turns_of(p), 64U);
  EXPECT_EQ(p.turn(), 64U);
}

TEST(spin_wait, reads_the_clock_more_often_if_oversubscribed) {
  std::atomic<bool> oversubscribed{true};
  spin_wait p(not_at_all, oversubscribed);
  EXPECT_EQ(turns_of(p), 8U);
}

TEST(spin_wait, learns_that_others_wait_when_it_begins_anew) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p(not_at_all, oversubscribed);
  EXPECT_EQ(turns_of(p), 64U);
  oversubscribed = true;
  EXPECT_EQ(turns_of(p), 64U) << "not before";
  p.renew();
  EXPECT_EQ(turns_of(p), 8U);
}

TEST(spin_wait, lasts_as_long_as_the_policy_says) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p(for_hours, oversubscribed);
  EXPECT_EQ(turns_of(p, 10'000), 10'000U);
}

TEST(spin_wait, ends_with_the_deadline) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p(for_hours, oversubscribed, clock::now());
  EXPECT_EQ(turns_of(p), 64U);
  EXPECT_TRUE(p.deadline_has_passed());
  p.renew();
  EXPECT_TRUE(p.deadline_has_passed()) << "a deadline is not renewed";
}

TEST(spin_wait, has_no_deadline_unless_it_is_given_one) {
  std::atomic<bool> oversubscribed{false};
  const spin_wait without(not_at_all, oversubscribed);
  EXPECT_FALSE(without.deadline_has_passed());
  const spin_wait later(not_at_all, oversubscribed, clock::now() + hours(10));
  EXPECT_FALSE(later.deadline_has_passed());
}

// ---- who took the processor ---------------------------------------------------------------------

constexpr wait_policy usual{std::chrono::milliseconds(2), std::chrono::microseconds(20)};

TEST(is_oversubscribed, false_if_the_processor_was_not_taken) {
  for (const auto away : {nanoseconds(200), nanoseconds(830), nanoseconds(5'000)})
    EXPECT_FALSE(is_oversubscribed({.was_taken = false, .away = away}, usual)) << away.count();
}

TEST(is_oversubscribed, true_if_the_processor_was_given_back_soon) {
  for (const auto away : {nanoseconds(300), nanoseconds(1'200), nanoseconds(40'000)})
    EXPECT_TRUE(is_oversubscribed({.was_taken = true, .away = away}, usual)) << away.count();
}

TEST(is_oversubscribed, false_if_a_computing_thread_keeps_the_processor) {
  for (const auto away : {nanoseconds(40'002), nanoseconds(8'000'000)})
    EXPECT_FALSE(is_oversubscribed({.was_taken = true, .away = away}, usual)) << away.count();
}

TEST(is_oversubscribed, soon_is_what_the_policy_says) {
  constexpr yield_outcome y{.was_taken = true, .away = std::chrono::milliseconds(8)};
  EXPECT_TRUE(is_oversubscribed(y, {hours(1), std::chrono::milliseconds(4)}));
  EXPECT_FALSE(is_oversubscribed(y, {hours(1), nanoseconds(1)}));
  EXPECT_TRUE(is_oversubscribed(y, {hours(1), nanoseconds(0)}));
}

/// Binds the calling thread, and threads that it starts, to one processor.
class on_one_processor {
 public:
  on_one_processor() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  on_one_processor(const on_one_processor&) = delete;
  on_one_processor& operator=(const on_one_processor&) = delete;
  ~on_one_processor() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

/// Waits until `oversubscribed` has that value. False if it takes too long.
bool becomes(spin_wait& p, const std::atomic<bool>& oversubscribed, bool value) {
  const time_point end = clock::now() + std::chrono::seconds(60);
  while (oversubscribed != value && clock::now() < end)
    (void)p.is_over();
  return oversubscribed == value;
}

TEST(spin_wait, asks_the_kernel_whether_the_processor_was_taken) {
  const on_one_processor bound;
  std::atomic<bool> oversubscribed{true};
  spin_wait p({hours(10), std::chrono::milliseconds(1)}, oversubscribed);
  EXPECT_TRUE(becomes(p, oversubscribed, false)) << "nobody else waits here";

  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop)
      sched_yield();
  });
  EXPECT_TRUE(becomes(p, oversubscribed, true)) << "another thread takes each yield";
  stop = true;
  other.join();
  EXPECT_TRUE(becomes(p, oversubscribed, false)) << "it has gone";
}

TEST(spin_wait, offers_the_processor_and_goes_on) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p({hours(10), nanoseconds(0)}, oversubscribed);
  EXPECT_EQ(turns_of(p, 10'000), 10'000U);
}

} // namespace
} // namespace farcall::am::spin_wait_test
