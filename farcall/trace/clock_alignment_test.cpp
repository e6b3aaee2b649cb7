// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/clock_alignment.hpp>

#include <gtest/gtest.h>

namespace farcall::trace::clock_alignment_test {
namespace {

TEST(clock_alignment, takes_clocks_that_agree_as_one) {
  clock_alignment a;
  // The difference is less than the error bound.
  a.add({{1000, 1003, 10}});
  a.add({{2000, 1996, 10}});
  EXPECT_TRUE(a.is_same_clock());
  EXPECT_DOUBLE_EQ(a.in_host_ticks(1500, 1000), 500.0);
}

TEST(clock_alignment, counts_the_exchange_with_the_shortest_round_trip) {
  clock_alignment a;
  a.add({{1000, 5'000'400, 900}, {2000, 5'001'001, 20}, {3000, 5'002'300, 700}});
  EXPECT_FALSE(a.is_same_clock());
  EXPECT_DOUBLE_EQ(a.error(), 10.0);
  EXPECT_DOUBLE_EQ(a.in_host_ticks(2000, 5'000'000), 1001.0);
}

TEST(clock_alignment, follows_a_clock_that_drifts) {
  clock_alignment a;
  // The host's clock first runs twice as fast, then three times.
  a.add({{1000, 1'000'000, 2}});
  a.add({{2000, 1'002'000, 2}});
  a.add({{3000, 1'005'000, 2}});
  EXPECT_DOUBLE_EQ(a.in_host_ticks(1500, 1'000'000), 1000.0);
  EXPECT_DOUBLE_EQ(a.in_host_ticks(2500, 1'000'000), 3500.0);
  // Outside the samples the average rate is used.
  EXPECT_DOUBLE_EQ(a.rate(), 2.5);
  EXPECT_DOUBLE_EQ(a.in_host_ticks(3100, 1'000'000), 5250.0);
  EXPECT_DOUBLE_EQ(a.in_host_ticks(900, 1'000'000), -250.0);
}

TEST(clock_alignment, drops_samples_with_long_round_trips) {
  clock_alignment a;
  a.add({{1000, 1'000'000, 100}});
  a.add({{2000, 1'009'000, 5000}}); // too long to be used
  a.add({{3000, 1'004'000, 120}});
  EXPECT_DOUBLE_EQ(a.in_host_ticks(2000, 1'000'000), 2000.0);
  EXPECT_DOUBLE_EQ(a.error(), 60.0);
  // A shorter round trip now makes the two others too long as well.
  a.expect_rate(2.0);
  a.add({{4000, 1'006'000, 10}});
  EXPECT_DOUBLE_EQ(a.error(), 5.0);
  EXPECT_DOUBLE_EQ(a.in_host_ticks(3000, 1'000'000), 4000.0);
}

TEST(clock_alignment, uses_the_expected_rate_while_there_is_one_sample) {
  clock_alignment a;
  a.expect_rate(100.0);
  a.add({{1000, 9'000'000, 2}});
  EXPECT_DOUBLE_EQ(a.in_host_ticks(1010, 9'000'000), 1000.0);
}

TEST(clock_alignment, is_not_misled_by_a_clock_that_runs_backwards) {
  clock_alignment a;
  a.add({{2000, 1'002'000, 2}});
  a.add({{1000, 7'000'000, 2}});
  EXPECT_DOUBLE_EQ(a.in_host_ticks(2000, 1'002'000), 0.0);
  EXPECT_DOUBLE_EQ(a.rate(), 1.0);
}

TEST(clock_alignment, knows_nothing_without_samples) {
  clock_alignment a;
  a.add({});
  EXPECT_FALSE(a.is_known());
}

} // namespace
} // namespace farcall::trace::clock_alignment_test
