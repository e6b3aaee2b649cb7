// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

namespace farcall::test::clock_test {
namespace {

using std::chrono::nanoseconds;

static_assert(time_limit(std::chrono::seconds(3)).length() == std::chrono::seconds(3));
static_assert(time_limit(nanoseconds(-1)).length() == nanoseconds(-1));
static_assert(time_limit(std::chrono::duration<double>(0.5)).length() ==
              std::chrono::milliseconds(500));
static_assert(time_limit(std::chrono::hours::max()).length() == nanoseconds::max());
static_assert(time_limit(std::chrono::hours::min()).length() == nanoseconds::min());
static_assert(time_limit(nanoseconds::max()).length() == nanoseconds::max());
static_assert(time_limit(nanoseconds::min()).length() == nanoseconds::min());

TEST(deadlines, beyond_the_clocks_range_are_none) {
  EXPECT_EQ(deadline_after(nanoseconds::max()), no_deadline);
  EXPECT_EQ(deadline_after(std::chrono::seconds::max()), no_deadline);
  EXPECT_EQ(deadline_after(std::chrono::hours::max()), no_deadline);
  EXPECT_EQ(deadline_after(std::chrono::duration<double>::max()), no_deadline);
  constexpr double for_ever = std::numeric_limits<double>::infinity();
  EXPECT_EQ(deadline_after(std::chrono::duration<double>(for_ever)), no_deadline);
}

TEST(deadlines, may_have_passed) {
  EXPECT_LT(deadline_after(std::chrono::hours::min()), clock::now());
  const time_point now = deadline_after(nanoseconds::zero());
  EXPECT_LE(now, clock::now());
  EXPECT_GT(deadline_after(std::chrono::hours(1)), clock::now());
}

} // namespace
} // namespace farcall::test::clock_test
