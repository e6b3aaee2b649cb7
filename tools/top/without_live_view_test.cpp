// SPDX-License-Identifier: Apache-2.0
#include "screen.hpp"

#include <tools/common/outcome.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(top_without_live_view, names_what_works_and_the_option_that_builds_it) {
  EXPECT_THAT([] { const screen shown; }, testing::ThrowsMessage<failed_run>(testing::AllOf(
                                              testing::HasSubstr("--once"),
                                              testing::HasSubstr("-DFARCALL_BUILD_LIVE_VIEW=ON"))));
}

} // namespace
} // namespace farcall::tool
