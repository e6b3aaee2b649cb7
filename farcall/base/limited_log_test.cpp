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

TEST(limited_log, then_says_how_many_it_left_out) {
  limited_log l("more were refused");
  for (int i = 0; i < 17; ++i)
    (void)l.admitted("line", begin);
  EXPECT_THAT(l.admitted("late", begin + milliseconds(1001)),
              ElementsAre("7 more were refused", "late"));
  // Counted once, and the new second has room again.
  for (int i = 0; i < 9; ++i)
    EXPECT_THAT(l.admitted("line", begin + milliseconds(1500)), ElementsAre("line"));
  EXPECT_THAT(l.admitted("line", begin + milliseconds(1500)), IsEmpty());
}

TEST(limited_log, says_nothing_of_lines_that_it_let_through) {
  limited_log l("more");
  for (int i = 0; i < 10; ++i)
    (void)l.admitted("line", begin);
  EXPECT_THAT(l.admitted("late", begin + milliseconds(5000)), ElementsAre("late"));
}

} // namespace
} // namespace farcall::log::limited_log_test
