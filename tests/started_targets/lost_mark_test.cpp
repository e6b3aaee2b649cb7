#include <tests/command.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

namespace farcall::test::lost_mark_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string program = FARCALL_START_PROGRAM;

/// End of a program, and the number of its processes.
struct outcome {
  int status = -1;
  std::string text;
  std::size_t processes = 0;
};

/// Runs the program with this action; `before` is written before it, as in a shell.
outcome run(const std::string& action, const std::string& before = "") {
  const auto file = std::filesystem::path(::testing::TempDir()) /
                    ("farcall-starts-" + std::to_string(::getpid()));
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  std::string line = before;
  line.append(" ").append(program).append(" ").append(action).append(" ").append(file.string());
  command runs("env" + line);
  outcome o;
  o.status = runs.end();
  o.text = runs.text();
  o.processes = std::filesystem::file_size(file);
  std::filesystem::remove(file, ignored);
  return o;
}

/// The host says what is wrong, and each of its three targets has ended without one of its own.
void expect_refusal(const outcome& o, const std::string& text) {
  EXPECT_EQ(o.status, 3) << o.text;
  EXPECT_THAT(o.text, HasSubstr("refused: node 1"));
  EXPECT_THAT(o.text, HasSubstr(text));
  EXPECT_LE(o.processes, 4U);
  // Targets say nothing: the host has said it.
  EXPECT_EQ(o.text.find('\n'), o.text.size() - 1) << o.text;
}

TEST(lost_marks, a_program_with_its_marks) {
  const outcome o = run("nothing");
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_EQ(o.text, "42\n");
  EXPECT_EQ(o.processes, 4U);
}

TEST(lost_marks, a_program_that_empties_its_environment) {
  expect_refusal(run("clear"), "environment was emptied");
}

TEST(lost_marks, a_program_that_replaces_its_environment) {
  expect_refusal(run("replace"), "environment was emptied");
}

TEST(lost_marks, a_program_that_closes_descriptors) {
  const outcome o = run("close");
  expect_refusal(o, "was closed before its farcall::job");
  EXPECT_THAT(o.text, Not(HasSubstr("unset it")));
}

TEST(lost_marks, a_program_that_empties_its_environment_and_closes_descriptors) {
  expect_refusal(run("clear-and-close"), "environment was emptied");
}

TEST(lost_marks, a_wrapper_that_empties_the_environment) {
  expect_refusal(run("nothing", " FARCALL_WRAP='env -i'"), "environment was emptied");
}

TEST(lost_marks, a_wrapper_whose_child_the_program_is) {
  expect_refusal(run("nothing", " FARCALL_WRAP='" + program + " without-marks'"),
                 "environment was emptied");
}

TEST(lost_marks, targets_that_have_joined_may_start_hosts) {
  // A shell in a target starts a host.
  const outcome o = run("nested");
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_THAT(o.text, HasSubstr("42\n"));
}

} // namespace
} // namespace farcall::test::lost_mark_test
