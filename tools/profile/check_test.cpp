// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include "example_profile.hpp"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

void expect_refused(const profile& damaged, const std::string& words) {
  EXPECT_THAT([&] { check(damaged); }, ThrowsMessage<std::invalid_argument>(HasSubstr(words)));
}

TEST(profile_check, lets_whole_profiles_pass) {
  EXPECT_NO_THROW(check(profile{}));
  EXPECT_NO_THROW(check(example_profile()));
}

TEST(profile_check, finds_invalid_references) {
  profile seen = example_profile();
  seen.samples[3].stack = static_cast<std::uint32_t>(seen.stacks.size());
  expect_refused(seen, "sample 3 names stack 7, and there are 7");

  seen = example_profile();
  seen.samples[3].thread = 3;
  expect_refused(seen, "sample 3 names thread 3, and there are 3");

  seen = example_profile();
  seen.stacks[2].frame = 99;
  expect_refused(seen, "stack 2 names frame 99");

  seen = example_profile();
  seen.samples[0].does = static_cast<activity>(3);
  expect_refused(seen, "sample 0 names activity 3");
}

TEST(profile_check, finds_cycles) {
  profile seen = example_profile();
  seen.stacks[1].caller = 1;
  expect_refused(seen, "stack 1 names as its caller stack 1");
  seen.stacks[1].caller = 3;
  expect_refused(seen, "stack 1 names as its caller stack 3");
}

} // namespace
} // namespace farcall::tool
