// SPDX-License-Identifier: Apache-2.0
#include <tests/command.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include <unistd.h>

namespace farcall::test::signals_test {
namespace {

using ::testing::HasSubstr;

/// Runs the program in its own session and process group.
class in_own_group {
 public:
  explicit in_own_group(const std::string& action)
      : file_(std::filesystem::path(::testing::TempDir()) /
              ("farcall-signals-" + std::to_string(::getpid()))),
        runs("setsid " FARCALL_START_PROGRAM " " + action + " " + file_.string()) {}
  in_own_group(const in_own_group&) = delete;
  in_own_group& operator=(const in_own_group&) = delete;
  ~in_own_group() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }

 private:
  std::filesystem::path file_;

 public:
  command runs;
};

class signals_of_the_group : public ::testing::TestWithParam<int> {};

TEST_P(signals_of_the_group, leave_targets_to_their_host) {
  in_own_group started("outlive-signals");
  ASSERT_TRUE(started.runs.says("ready"));
  ASSERT_EQ(::kill(-started.runs.pid(), GetParam()), 0);
  EXPECT_EQ(started.runs.end(), 0) << started.runs.text();
  EXPECT_THAT(started.runs.text(), HasSubstr("the target lives"));
}

INSTANTIATE_TEST_SUITE_P(of_terminals_and_schedulers, signals_of_the_group,
                         ::testing::Values(SIGINT, SIGQUIT, SIGHUP, SIGTERM),
                         [](const auto& which) {
                           return std::string(::sigabbrev_np(which.param));
                         });

class ends_of_hosts : public ::testing::TestWithParam<int> {};

TEST_P(ends_of_hosts, end_targets_and_their_children) {
  in_own_group started("wait-in-target");
  ASSERT_TRUE(started.runs.says("\n"));
  ASSERT_EQ(::kill(-started.runs.pid(), GetParam()), 0);
  // Waits for all processes, the target's child among them.
  EXPECT_EQ(started.runs.end(), 128 + GetParam()) << started.runs.text();
}

INSTANTIATE_TEST_SUITE_P(by_signals, ends_of_hosts, ::testing::Values(SIGINT, SIGTERM, SIGKILL),
                         [](const auto& which) {
                           return std::string(::sigabbrev_np(which.param));
                         });

} // namespace
} // namespace farcall::test::signals_test
