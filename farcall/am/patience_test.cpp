#include <farcall/am/patience.hpp>

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

/// Turns until it is over, at most `most`.
unsigned turns_of(patience& p, unsigned most = 100'000) {
  unsigned turns = 1;
  while (!p.is_over() && turns < most)
    ++turns;
  return turns;
}

TEST(patience, is_over_at_the_first_look_where_nobody_shall_spin) {
  std::atomic<bool> crowded{false};
  patience p(not_at_all, crowded);
  EXPECT_EQ(turns_of(p), 64U);
  EXPECT_EQ(p.turn(), 64U);
}

TEST(patience, looks_more_often_where_others_wait_for_the_processor) {
  std::atomic<bool> crowded{true};
  patience p(not_at_all, crowded);
  EXPECT_EQ(turns_of(p), 8U);
}

TEST(patience, learns_that_others_wait_when_it_begins_anew) {
  std::atomic<bool> crowded{false};
  patience p(not_at_all, crowded);
  EXPECT_EQ(turns_of(p), 64U);
  crowded = true;
  EXPECT_EQ(turns_of(p), 64U) << "not before";
  p.renew();
  EXPECT_EQ(turns_of(p), 8U);
}

TEST(patience, lasts_as_long_as_the_policy_says) {
  std::atomic<bool> crowded{false};
  patience p(for_hours, crowded);
  EXPECT_EQ(turns_of(p, 10'000), 10'000U);
}

TEST(patience, ends_with_the_deadline) {
  std::atomic<bool> crowded{false};
  patience p(for_hours, crowded, clock::now());
  EXPECT_EQ(turns_of(p), 64U);
  EXPECT_TRUE(p.deadline_has_passed());
  p.renew();
  EXPECT_TRUE(p.deadline_has_passed()) << "a deadline is not renewed";
}

TEST(patience, has_no_deadline_unless_it_is_given_one) {
  std::atomic<bool> crowded{false};
  const patience without(not_at_all, crowded);
  EXPECT_FALSE(without.deadline_has_passed());
  const patience later(not_at_all, crowded, clock::now() + hours(10));
  EXPECT_FALSE(later.deadline_has_passed());
}

TEST(patience, offers_the_processor_and_goes_on) {
  std::atomic<bool> crowded{false};
  patience p({hours(10), nanoseconds(0)}, crowded);
  EXPECT_EQ(turns_of(p, 10'000), 10'000U);
}

} // namespace
} // namespace farcall::am
