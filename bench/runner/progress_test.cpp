// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::tool {
namespace {

TEST(progress, the_line_shows_share_and_step) {
  EXPECT_EQ(progress_line("bench", 1, 2, "floor", 80),
            "bench [############............]  50% floor");
  EXPECT_EQ(progress_line("bench", 0, 0, "", 80), "bench [########################] 100% ");
}

TEST(progress, the_line_never_exceeds_the_terminal) {
  EXPECT_EQ(progress_line("bench", 1, 2, std::string(200, 'x'), 40).size(), 40U);
}

TEST(progress, more_steps_than_announced_stay_at_the_end) {
  EXPECT_EQ(progress_line("b", 9, 3, "w", 80), "b [########################] 100% w");
}

TEST(progress, is_written_to_terminals_only) {
  testing::internal::CaptureStderr(); // redirects standard error into a file
  {
    progress bar("bench", 3);
    bar.begin_step("one");
    bar.begin_step("two");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace
} // namespace farcall::tool
