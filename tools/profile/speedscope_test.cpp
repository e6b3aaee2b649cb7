// SPDX-License-Identifier: Apache-2.0
#include "speedscope.hpp"

#include "example_profile.hpp"
#include "many_stacks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(speedscope, has_a_profile_for_each_thread_with_samples) {
  const std::string text = speedscope_json(example_profile());
  // Frames in the profile's order: main, solve, axpy (once, at two places), wait, serve, …
  EXPECT_THAT(
      text,
      HasSubstr(R"-({"type":"sampled","name":"node 0: solver (100), solver (100)",)-"
                R"-("unit":"seconds","startValue":0,"endValue":0.08,)-"
                R"-("samples":[[0,1],[0,1,2],[0,1,2],[0,3]],"weights":[0.03,0.02,0.01,0.02]})-"));
  EXPECT_THAT(text, HasSubstr(R"-("samples":[[4],[4,5]],"weights":[0.03,0.01]})-"));
  EXPECT_THAT(text, Not(HasSubstr("sleep")));
}

TEST(speedscope, counts_samples_where_the_rate_is_not_known) {
  profile seen = example_profile();
  seen.samples_per_second = 0;
  EXPECT_THAT(speedscope_json(seen), HasSubstr(R"-("weights":[3.0,1.0]})-"));
  EXPECT_THAT(speedscope_json(seen), HasSubstr(R"-("unit":"none")-"));
}

TEST(speedscope, takes_many_stacks) {
  EXPECT_THAT(speedscope_json(many_stacks(20'000)), HasSubstr("function19999"));
}

} // namespace
} // namespace farcall::tool
