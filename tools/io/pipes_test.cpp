// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include "tests/shell_output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests a pipe of the host that programs of a target use.
namespace farcall::test::pipes_test {
namespace {

class pipes_of_hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkfifo((tree_ / "pipe").c_str(), 0600), 0);
    pipe_ = unique_fd(::open((tree_ / "pipe").c_str(), O_RDWR | O_CLOEXEC));
    const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
    const scoped_variable forward("FARCALL_IO_FORWARD", "always");
    job_options options = with_targets("shm");
    options.host_files = tree_ / "pipe";
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  /// Begins shell commands on the target. $P is the pipe.
  future<std::string> begin(const std::string& commands) {
    const auto run = +[](const std::string& path, const std::string& text) {
      ::setenv("P", path.c_str(), 1);
      return shell_output(text);
    };
    return async(target_, run, tree_ / "pipe", commands);
  }

  scratch_tree tree_;
  unique_fd pipe_;
  std::optional<job> job_;
  node target_;
};

TEST_F(pipes_of_hosts, are_read_by_many_programs_at_once) {
  auto output = begin("for i in $(seq 64); do head -c 1 $P & done; wait");
  const std::string all(64, 'x');
  ASSERT_EQ(::write(pipe_.get(), all.data(), all.size()), 64);
  EXPECT_EQ(output.get(), all);
}

TEST_F(pipes_of_hosts, do_not_keep_programs_without_handlers_from_ending) {
  // The signal comes after the program has opened the pipe, and while it waits for bytes.
  auto output = begin("cat $P & until ls -l /proc/$!/fd 2> /dev/null | grep -q '700 -> socket'; do "
                      ":; done; kill -TERM $!; wait $! || echo $?");
  EXPECT_THAT(output.get(), ::testing::HasSubstr("143\n"));
}

} // namespace
} // namespace farcall::test::pipes_test
