// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/support.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace farcall::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Tests programs that cannot be targets: the job is refused with a reason, and leaves no resources
/// behind.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class starting : public ::testing::Test {
 protected:
  starting() {
    // Resources that the first job of a process keeps are no leak.
    {
      const job first(with_targets("shm"));
    }
    before_ = holdings::now();
    file_ = std::filesystem::path(::testing::TempDir()) /
            ("farcall-start-test-" + std::to_string(::getpid()));
  }
  ~starting() override {
    std::filesystem::remove(file_);
    EXPECT_TRUE(nothing_left_since(before_));
  }

  std::string refusal(const job_options& options) {
    const auto e = thrown_by<start_failed>([&] { const job j(options); });
    if (!e) return "";
    node_ = e->node();
    return e->what();
  }
  std::string refusal_of(const std::string& program) {
    job_options options = with_targets("shm");
    options.program = program;
    return refusal(options);
  }

  holdings before_;
  std::filesystem::path file_;
  node_id node_ = no_node;
};

TEST_F(starting, program_is_missing) {
  EXPECT_THAT(refusal_of("/no/such/program"),
              AllOf(HasSubstr("/no/such/program"), HasSubstr("no such file"), HasSubstr("node 1")));
  EXPECT_EQ(node_, 1U);
}

TEST_F(starting, program_is_a_directory) {
  EXPECT_THAT(refusal_of("/tmp"), AllOf(HasSubstr("\"/tmp\""), HasSubstr("directory")));
}

TEST_F(starting, program_is_not_executable) {
  std::ofstream(file_) << "#!/bin/sh\n";
  std::filesystem::permissions(file_, std::filesystem::perms::owner_read);
  EXPECT_THAT(refusal_of(file_), AllOf(HasSubstr(file_.string()), HasSubstr("chmod +x")));
}

TEST_F(starting, program_is_no_program) {
  std::ofstream(file_) << std::string(100, '\x7f');
  std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  EXPECT_THAT(refusal_of(file_), HasSubstr(file_.string()));
}

TEST_F(starting, program_knows_nothing_of_farcall) {
  EXPECT_THAT(refusal_of("/bin/true"),
              AllOf(HasSubstr("/bin/true"), HasSubstr("exited with status 0"),
                    HasSubstr("serve_if_target")));
  EXPECT_THAT(refusal_of("/bin/false"), HasSubstr("exited with status 1"));
}

TEST_F(starting, program_never_reports) {
  job_options options = with_targets("shm");
  options.program = "/bin/sleep";
  options.arguments = {"sleep", "1000"};
  options.start_timeout = std::chrono::milliseconds(200);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("/bin/sleep"), HasSubstr("in time"),
                                      HasSubstr("start_timeout"), HasSubstr("node 1")));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(200));
  EXPECT_LT(took, std::chrono::seconds(5)) << "the start took far longer than its bound";
}

TEST_F(starting, program_leaves_a_process_behind) {
  // The process that is left behind keeps the socket to the host open.
  std::ofstream(file_) << "#!/bin/sh\nsleep 45 > /dev/null 2>&1 &\nexit $1\n";
  std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  job_options options = with_targets("shm");
  options.program = file_;
  options.start_timeout = std::chrono::seconds(40);
  const auto begin = std::chrono::steady_clock::now();
  for (const char* status : {"0", "3"}) {
    options.arguments = {"program", status};
    EXPECT_THAT(refusal(options), AllOf(HasSubstr(std::string("exited with status ") + status),
                                        HasSubstr("before it joined the job")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(starting, program_kills_itself) {
  std::ofstream(file_) << "#!/bin/sh\nkill -KILL $$\n";
  std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  EXPECT_THAT(refusal_of(file_), HasSubstr("SIGKILL"));
}

TEST_F(starting, command_is_missing_or_no_target) {
  EXPECT_THAT(refusal(with_targets("exec:no-such-emulator ./app")),
              AllOf(HasSubstr("\"no-such-emulator\""), HasSubstr("PATH"), HasSubstr("node 1")));
  EXPECT_THAT(
      refusal(with_targets("shm,exec:'/no/such/emulator' ./app")),
      AllOf(HasSubstr("/no/such/emulator"), HasSubstr("no such file"), HasSubstr("node 2")));
  EXPECT_THAT(refusal(with_targets("exec:sh -c 'exit 3'")),
              AllOf(HasSubstr("sh -c exit 3"), HasSubstr("exited with status 3"),
                    HasSubstr("serve_if_target")));
}

TEST_F(starting, program_is_for_another_machine) {
  std::ofstream(file_) << "\x7f"
                          "ELF"
                       << std::string(100, '\0');
  std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
  EXPECT_THAT(refusal_of(file_),
              AllOf(HasSubstr("not a program for this machine"), HasSubstr("exec:qemu-")));
}

TEST_F(starting, one_bad_target_among_good_ones) {
  EXPECT_THAT(refusal(with_targets("shm:3,shm?program=/bin/true,shm")), HasSubstr("node 4"));
  EXPECT_EQ(node_, 4U);
  EXPECT_THAT(refusal(with_targets("shm:3,shm?program=/no/such/program")), HasSubstr("node 4"));
}

TEST_F(starting, again_after_a_refusal) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(refusal_of("/bin/true"), "");
    const job j(with_targets("shm"));
    EXPECT_EQ(sync(j.targets()[0], [] { return 3; }), 3);
  }
}

} // namespace
} // namespace farcall::test
