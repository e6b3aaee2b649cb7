// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::log::limited_log_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const time_point begin = time_point{} + std::chrono::hours(1);

TEST(limited_log, takes_ten_lines_a_second) {
  limited_log l("more");
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(l.admitted("line", begin + milliseconds(i)), ElementsAre("line"));
  EXPECT_THAT(l.admitted("line", begin + milliseconds(10)), IsEmpty());
  EXPECT_THAT(l.admitted("line", begin + milliseconds(1000)), IsEmpty());
}

TEST(limited_log, reports_the_number_of_omitted_lines) {
  limited_log l("more were refused");
  for (int i = 0; i < 17; ++i)
    (void)l.admitted("line", begin);
  EXPECT_THAT(l.admitted("late", begin + milliseconds(1001)),
              ElementsAre("7 more were refused", "late"));
  // The omitted lines are counted once, and a new second allows ten more lines.
  for (int i = 0; i < 9; ++i)
    EXPECT_THAT(l.admitted("line", begin + milliseconds(1500)), ElementsAre("line"));
  EXPECT_THAT(l.admitted("line", begin + milliseconds(1500)), IsEmpty());
}

TEST(limited_log, reports_no_lines_that_were_written) {
  limited_log l("more");
  for (int i = 0; i < 10; ++i)
    (void)l.admitted("line", begin);
  EXPECT_THAT(l.admitted("late", begin + milliseconds(5000)), ElementsAre("late"));
}

TEST(limited_log, writes_a_line_without_memory_for_the_line) {
  limited_log l("more");
  testing::internal::CaptureStderr();
  l.error([]() -> std::string { throw std::bad_alloc(); });
  l.warning([] { return std::string("made"); });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              ::testing::AllOf(::testing::HasSubstr("error: no memory for a line of the log\n"),
                               ::testing::HasSubstr("warning: made\n")));
}

} // namespace
} // namespace farcall::log::limited_log_test
