// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <gtest/gtest.h>

namespace farcall::bench {
namespace {

TEST(parse_options, defaults_measure_the_first_gpu) {
  const options o = parse_options({});
  EXPECT_EQ(o.what, role::measure);
  EXPECT_EQ(o.target, "cuda:0");
  EXPECT_TRUE(o.is_gpu());
  EXPECT_EQ(o.samples, 200'000U);
  EXPECT_TRUE(o.wants("calls"));
}

TEST(parse_options, quick_takes_fewer_samples_unless_told_how_many) {
  EXPECT_EQ(parse_options({"--quick"}).samples, 20'000U);
  EXPECT_EQ(parse_options({"--samples", "500", "--quick"}).samples, 500U);
  EXPECT_EQ(parse_options({"--quick"}).choose(7, 3), 3U);
}

TEST(parse_options, groups_are_chosen_by_name) {
  const options o = parse_options({"--only", "floor,copies", "--targets", "cuda-emulated:0"});
  EXPECT_TRUE(o.wants("floor"));
  EXPECT_TRUE(o.wants("copies"));
  EXPECT_FALSE(o.wants("calls"));
  EXPECT_FALSE(o.is_gpu());
}

TEST(parse_options, figures_are_added_to_a_named_file_only) {
  EXPECT_EQ(parse_options({"--csv", "f"}).csv, "f");
  EXPECT_EQ(parse_options({"--smoke"}).what, role::smoke);
  EXPECT_EQ(parse_options({}).csv, "");
}

TEST(parse_options, unknown_options_and_values_are_refused) {
  EXPECT_THROW((void)parse_options({"--fast"}), usage_error);
  EXPECT_THROW((void)parse_options({"--csv"}), usage_error);
  EXPECT_THROW((void)parse_options({"--only", "floor,"}), usage_error);
  EXPECT_THROW((void)parse_options({"--samples", "12"}), usage_error);
  EXPECT_THROW((void)parse_options({"--samples", "1000x"}), usage_error);
  EXPECT_THROW((void)parse_options({"--patience", "0"}), usage_error);
  EXPECT_THROW((void)parse_options({"--targets", "shm"}), usage_error);
  EXPECT_THROW((void)parse_options({"--targets", "cuda:0,cuda:1"}), usage_error);
}

TEST(with_option, adds_an_option_or_replaces_its_value) {
  EXPECT_EQ(with_option("cuda:0", "workers", 8), "cuda:0?workers=8");
  EXPECT_EQ(with_option("cuda:0?idle_ms=1", "workers", 8), "cuda:0?idle_ms=1&workers=8");
  EXPECT_EQ(with_option("cuda:0?workers=2", "workers", 8), "cuda:0?workers=8");
  EXPECT_EQ(with_option("cuda:0?a=1&workers=2&b=3", "workers", 8), "cuda:0?a=1&workers=8&b=3");
}

} // namespace
} // namespace farcall::bench
