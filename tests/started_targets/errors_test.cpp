#include <tests/command.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace farcall::test::errors_test {
namespace {

using ::testing::HasSubstr;

const std::string program = FARCALL_START_PROGRAM;
const std::string other_host = FARCALL_OTHER_HOST;

struct outcome {
  int status;
  std::string text;
};

outcome run(const std::string& line) {
  command runs(line);
  const int status = runs.end();
  return {status, runs.text()};
}

TEST(unknown_functions, are_named_with_the_programs) {
  const outcome o = run(other_host + " '--farcall-targets=shm?program=" + program + "'");
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_THAT(o.text, HasSubstr("hits(unsigned long, unsigned long)"));
  EXPECT_THAT(o.text, HasSubstr("node 1 runs " + program));
  EXPECT_THAT(o.text, HasSubstr("this program is " + other_host));
}

TEST(dropped_errors, are_logged_once_and_counted) {
  command runs(program + " drop-errors");
  EXPECT_EQ(runs.end(), 0) << runs.text();
  EXPECT_EQ(runs.count("a future was dropped with an error"), 1U) << runs.text();
  EXPECT_EQ(runs.count("lost words"), 1U) << runs.text();
  EXPECT_EQ(runs.count("2 more futures were dropped with an error"), 1U) << runs.text();
  EXPECT_EQ(runs.count("caught"), 1U);
}

} // namespace
} // namespace farcall::test::errors_test
