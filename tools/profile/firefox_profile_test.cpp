// SPDX-License-Identifier: Apache-2.0
#include "firefox_profile.hpp"

#include "example_profile.hpp"
#include "many_stacks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;

// formats_test.py checks that the tables fit together.
TEST(firefox_profile, says_which_version_it_is_and_when_it_began) {
  const std::string text = firefox_profile_json(example_profile());
  EXPECT_THAT(text, HasSubstr(R"("preprocessedProfileVersion":55,"interval":10.0,)"
                              R"("startTime":1700000000000.0,)"));
  EXPECT_THAT(text, HasSubstr(R"("label":"Samples dropped","format":"integer","value":7)"));
}

TEST(firefox_profile, sorts_samples_by_time) {
  profile seen = example_profile();
  std::swap(seen.samples[0].at, seen.samples[1].at);
  EXPECT_THAT(firefox_profile_json(seen), HasSubstr(R"("time":[0.0,10.0,20.0,)"));
}

TEST(firefox_profile, gives_inlined_functions_their_callers_address) {
  profile seen = example_profile();
  seen.samples.erase(seen.samples.begin() + 5, seen.samples.end());
  // Stack: main, solve, and axpy inlined into solve, on lines 10, 20 and 30.
  EXPECT_THAT(firefox_profile_json(seen),
              HasSubstr(R"("frameTable":{"address":[4096,8192,8192],"inlineDepth":[0,0,1],)"
                        R"("category":[1,1,1],"subcategory":[0,0,0],"func":[0,1,2],)"
                        R"("nativeSymbol":[0,1,1],"innerWindowID":[null,null,null],)"
                        R"("line":[10,20,30],"column":[null,null,null],"length":3})"));
}

TEST(firefox_profile, takes_many_stacks) {
  EXPECT_THAT(firefox_profile_json(many_stacks(20'000)), HasSubstr("function19999"));
}

} // namespace
} // namespace farcall::tool
