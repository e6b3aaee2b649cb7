// SPDX-License-Identifier: Apache-2.0
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

/// Exit status and output of a program, and the number of its processes.
struct outcome {
  int status = -1;
  std::string text;
  std::size_t processes = 0;
};

/// Runs the program with an action. As in a shell, the words `before` come before the program, and
/// `after` is the program's last argument.
outcome run(const std::string& action, const std::string& before = "",
            const std::string& after = "") {
  const auto file = std::filesystem::path(::testing::TempDir()) /
                    ("farcall-starts-" + std::to_string(::getpid()));
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  std::string line = before;
  line.append(" ").append(program).append(" ").append(action).append(" ").append(file.string());
  line.append(" ").append(after);
  command runs("env" + line);
  outcome o;
  o.status = runs.end();
  o.text = runs.text();
  o.processes = std::filesystem::file_size(file);
  std::filesystem::remove(file, ignored);
  return o;
}

/// Expects that the host prints the error, and that its three targets have ended without errors of
/// their own.
void expect_refusal(const outcome& o, const std::string& text) {
  EXPECT_EQ(o.status, 3) << o.text;
  EXPECT_THAT(o.text, HasSubstr("refused: node 1"));
  EXPECT_THAT(o.text, HasSubstr(text));
  EXPECT_LE(o.processes, 4U);
  // Targets print no error: the host has printed it.
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

// The target has lost the variable, the socket and its ancestors. The host is a daemon, too.
TEST(lost_marks, a_daemon_that_empties_its_environment_and_closes_descriptors) {
  const outcome o = run("daemon-clear-and-close");
  EXPECT_THAT(o.text, HasSubstr("refused: node 1"));
  EXPECT_THAT(o.text, HasSubstr("serve_if_target()"));
  EXPECT_LE(o.processes, 4U);
}

TEST(replaced_targets, are_refused_where_a_program_becomes_a_daemon) {
  const outcome o = run("daemon");
  EXPECT_THAT(o.text, HasSubstr("refused: node 1"));
  EXPECT_THAT(o.text, HasSubstr("is the target in its place"));
  EXPECT_LE(o.processes, 4U);
}

TEST(replaced_targets, are_refused_behind_a_wrapper_that_forks) {
  const outcome o = run("nothing", " FARCALL_WRAP='setsid -f'");
  EXPECT_EQ(o.status, 3) << o.text;
  EXPECT_THAT(o.text, HasSubstr("is the target in its place"));
}

TEST(other_programs, are_hosts_if_they_run_before_the_job) {
  const outcome o = run("helper", "", FARCALL_OTHER_HOST);
  EXPECT_EQ(o.status, 0) << o.text;
  // Each of the four processes runs the helper, and the program prints its own result.
  EXPECT_EQ(o.text, "42\n42\n42\n42\n42\n");
  EXPECT_EQ(o.processes, 4U);
}

TEST(several_jobs, name_the_remedy_to_processes_that_fork) {
  const outcome o = run("fork-jobs");
  EXPECT_THAT(o.text, HasSubstr("call farcall::serve_if_target() first in main()"));
  EXPECT_THAT(o.text, Not(HasSubstr("something else than expected")));
}

TEST(several_jobs, name_the_remedy_to_threads) {
  const outcome o = run("threads");
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_THAT(o.text, HasSubstr("farcall::serve_if_target() before they start"));
  EXPECT_THAT(o.text, HasSubstr("42\n"));
}

TEST(lost_marks, targets_that_have_joined_may_start_hosts) {
  // A shell in a target starts a host.
  const outcome o = run("nested");
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_THAT(o.text, HasSubstr("42\n"));
}

} // namespace
} // namespace farcall::test::lost_mark_test
