// SPDX-License-Identifier: Apache-2.0
#include "forked_process.hpp"
#include "outcome.hpp"

#include <csignal>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(forked_process, reports_end_and_status) {
  forked_process child{[] { return 3; }};
  ASSERT_TRUE(child.wait_until(std::chrono::steady_clock::now() + seconds{10}));
  EXPECT_EQ(child.exit_status(), 3);
  EXPECT_EQ(child.fate(), "exit status 3");
}

TEST(forked_process, ends_a_running_child_with_its_object) {
  pid_t pid = 0;
  {
    forked_process child{[] {
      for (;;)
        pause();
      return 0;
    }};
    pid = child.pid();
    EXPECT_TRUE(child.alive());
    EXPECT_FALSE(child.wait_until(std::chrono::steady_clock::now() + milliseconds{5}));
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(measure_isolated, samples_come_back_as_they_were) {
  const measured m =
      measure_isolated([] { return std::vector<double>(100'000, 1.5); }, seconds{10});
  EXPECT_EQ(m.failure, "");
  ASSERT_EQ(m.samples.size(), 100'000U);
  EXPECT_EQ(m.samples.back(), 1.5);
}

TEST(measure_isolated, an_exception_becomes_the_reason) {
  const measured m = measure_isolated(
      []() -> std::vector<double> { throw std::runtime_error("not installed"); }, seconds{10});
  EXPECT_EQ(m.failure, "not installed");
  EXPECT_TRUE(m.samples.empty());
}

TEST(measure_isolated, a_crash_becomes_the_reason) {
  const measured m = measure_isolated(
      []() -> std::vector<double> {
        raise(SIGKILL);
        return {};
      },
      seconds{10});
  EXPECT_EQ(m.failure, "its process ended without a result: killed by signal 9");
}

TEST(measure_isolated, a_slow_child_is_ended) {
  const measured m = measure_isolated(
      []() -> std::vector<double> {
        for (;;)
          pause();
      },
      seconds{1});
  EXPECT_EQ(m.failure, "no result within 1 s");
}

TEST(run_program, output_and_status_are_kept_apart) {
  const program_result r = run_program({"sh", "-c", "echo out; echo err >&2; exit 5"}, seconds{10});
  EXPECT_EQ(r.exit_status, 5);
  EXPECT_EQ(r.standard_output, "out\n");
  EXPECT_EQ(r.standard_error, "err\n");
  EXPECT_FALSE(r.timed_out);
}

TEST(run_program, a_missing_program_is_a_failed_run) {
  EXPECT_THROW((void)run_program({"farcall-no-such-program"}, seconds{10}), failed_run);
}

TEST(run_program, input_that_cannot_be_opened_is_a_failed_run) {
  forked_process child{[] {
    // Space for standard input, output and error and for two pipes.
    const rlimit limit{7, 7};
    for (int fd = 3; fd < 1024; ++fd)
      ::close(fd);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    try {
      return run_program({"true"}, seconds{10}).exit_status;
    } catch (const failed_run& e) {
      return std::string_view(e.what()).starts_with("cannot open /dev/null: ") ? 5 : 3;
    }
  }};
  ASSERT_TRUE(child.wait_until(std::chrono::steady_clock::now() + seconds{10}));
  EXPECT_EQ(child.exit_status(), 5);
}

TEST(run_program, the_limit_ends_it_with_its_children) {
  const program_result r = run_program({"sh", "-c", "sleep 60 & sleep 60"}, seconds{1});
  EXPECT_TRUE(r.timed_out);
  EXPECT_EQ(r.exit_status, 128 + SIGKILL);
}

} // namespace
} // namespace farcall::tool
