// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <tools/common/outcome.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

/// This program has no farcall-prof beside it, like a command without the component `profiler`.
namespace farcall::tool::start_profiler_test {
namespace {

TEST(command_without_profiler, names_the_program_and_the_option_that_builds_it) {
  const command prof = command_prof();
  EXPECT_EQ(prof.name, "prof");
  EXPECT_THAT(
      [&] { (void)prof.run({"--pid", "1"}); },
      testing::ThrowsMessage<failed_run>(testing::AllOf(
          testing::HasSubstr("/farcall-prof"), testing::HasSubstr("-DFARCALL_BUILD_PROFILER=ON"))));
}

TEST(command_without_profiler, gives_servers_no_sampler) {
  EXPECT_TRUE(sampler_of_servers().empty());
}

} // namespace
} // namespace farcall::tool::start_profiler_test
