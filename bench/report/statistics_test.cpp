// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(statistics, percentile_of_nothing_is_not_a_number) {
  EXPECT_TRUE(std::isnan(percentile({}, 0.5)));
  EXPECT_TRUE(std::isnan(summarize({}).p50));
  EXPECT_EQ(summarize({}).samples, 0U);
}

TEST(statistics, one_sample_is_every_percentile) {
  const summary s = summarize({7.5});
  EXPECT_EQ(s.p1, 7.5);
  EXPECT_EQ(s.p50, 7.5);
  EXPECT_EQ(s.p99, 7.5);
}

TEST(statistics, the_median_may_be_between_two_samples) {
  EXPECT_DOUBLE_EQ(summarize({4, 1, 3, 2}).p50, 2.5);
}

TEST(statistics, percentiles_of_101_samples_are_the_samples) {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i)
    samples.push_back(i);
  const summary s = summarize(samples);
  EXPECT_DOUBLE_EQ(s.p1, 1);
  EXPECT_DOUBLE_EQ(s.p50, 50);
  EXPECT_DOUBLE_EQ(s.p99, 99);
  EXPECT_DOUBLE_EQ(s.lowest, 0);
  EXPECT_DOUBLE_EQ(s.highest, 100);
}

TEST(statistics, an_outlier_moves_neither_median_nor_first_percentile) {
  std::vector<double> samples(200, 10.0);
  samples[17] = 1e9;
  const summary s = summarize(samples);
  EXPECT_EQ(s.p1, 10.0);
  EXPECT_EQ(s.p50, 10.0);
  EXPECT_EQ(s.highest, 1e9);
}

TEST(statistics, a_share_outside_zero_to_one_is_clamped) {
  const std::vector<double> sorted{1, 2, 3};
  EXPECT_EQ(percentile(sorted, -1), 1);
  EXPECT_EQ(percentile(sorted, 2), 3);
}

TEST(statistics, converting_time_to_rate_keeps_the_order) {
  const summary rate = converted(summarize({1, 2, 4}), [](double t) { return 8 / t; });
  EXPECT_DOUBLE_EQ(rate.p50, 4);
  EXPECT_LT(rate.p1, rate.p50);
  EXPECT_GT(rate.p99, rate.p50);
  EXPECT_DOUBLE_EQ(rate.lowest, 2);
  EXPECT_DOUBLE_EQ(rate.highest, 8);
}

TEST(statistics, json_carries_three_percentiles) {
  const auto document = percentiles_json(summarize({1.23456}));
  EXPECT_EQ(document.dump(), R"({"p1":1.23,"p50":1.23,"p99":1.23})");
}

} // namespace
} // namespace farcall::tool
