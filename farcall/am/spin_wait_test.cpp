#include <farcall/am/spin_wait.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace farcall::am {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

/// Nothing here depends on how fast anything is: a policy spins not at all or for hours.
constexpr wait_policy not_at_all{nanoseconds(0), nanoseconds(0)};
constexpr wait_policy for_hours{hours(10), hours(10)};

/// Iterations until it is over, at most `most`.
unsigned turns_of(spin_wait& p, unsigned most = 100'000) {
  unsigned turns = 1;
  while (!p.is_over() && turns < most)
    ++turns;
  return turns;
}

TEST(spin_wait, is_over_at_the_first_look_where_nobody_shall_spin) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p(not_at_all, oversubscribed);
  EXPECT_EQ(turns_of(p), 64U);
  EXPECT_EQ(p.turn(), 64U);
}

TEST(spin_wait, looks_more_often_where_others_wait_for_the_processor) {
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

TEST(spin_wait, offers_the_processor_and_goes_on) {
  std::atomic<bool> oversubscribed{false};
  spin_wait p({hours(10), nanoseconds(0)}, oversubscribed);
  EXPECT_EQ(turns_of(p, 10'000), 10'000U);
}

} // namespace
} // namespace farcall::am
