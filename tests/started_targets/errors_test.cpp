// SPDX-License-Identifier: Apache-2.0
#include <tests/command.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace farcall::test::errors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

TEST(setting_errors, end_a_program_that_catches_nothing) {
  const outcome o = run(program + " catch-nothing --farcall-targets=shn:4");
  EXPECT_EQ(o.status, 2) << o.text;
  EXPECT_THAT(o.text, StartsWith("farcall_start_program: --farcall-targets"));
  EXPECT_THAT(o.text, Not(HasSubstr("terminate")));
}

TEST(setting_errors, reach_a_program_that_catches_them) {
  const outcome o = run(program + " nothing --farcall-targets=shn:4");
  EXPECT_EQ(o.status, 3) << o.text;
  EXPECT_THAT(o.text, StartsWith("refused: --farcall-targets"));
}

TEST(setting_errors, leave_other_exceptions_to_terminate) {
  const outcome o = run(program + " catch-nothing --farcall-program=/nosuch");
  EXPECT_EQ(o.status, 128 + SIGABRT) << o.text;
}

TEST(setting_errors, name_a_key_file_that_is_not_there) {
  const outcome o = run("env FARCALL_KEY=/nosuch/key " + program + " catch-nothing");
  EXPECT_EQ(o.status, 2) << o.text;
  EXPECT_THAT(o.text, HasSubstr("FARCALL_KEY: cannot read the file \"/nosuch/key\""));
}

TEST(setting_errors, name_a_certificate_that_is_not_there) {
  const outcome o = run("env FARCALL_CERTIFICATE=/nosuch/file " + program + " catch-nothing");
  EXPECT_EQ(o.status, 2) << o.text;
  EXPECT_THAT(o.text, HasSubstr("FARCALL_CERTIFICATE: cannot read the file"));
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
