// SPDX-License-Identifier: Apache-2.0

// Tests of exec targets, whose URL has a command line.
#include "tests/different_builds/different_builds.hpp"
#include "tests/different_builds/program.hpp"
#include "tests/different_builds/values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace different {
namespace {

using ::testing::ElementsAre;

const std::string program = DIFFERENT_SAME_COMPILER_TARGET;

TEST(exec_targets, have_the_arguments_that_are_written_there) {
  const fc::job job(
      farcall::test::with_targets("exec:'" + program + "' one 'two, three?' \"\"?name=given,shm"));
  const fc::node given = job.targets().at(0);
  EXPECT_EQ(given.name(), "given");
  EXPECT_EQ(given.description().transport, "shm");
  EXPECT_THAT(fc::sync(given, fc::fn<&arguments>), ElementsAre(program, "one", "two, three?", ""));
  EXPECT_EQ(fc::sync(given, triple, 4), 12);
  EXPECT_EQ(fc::sync(job.targets().at(1), fc::fn<&arguments>), arguments())
      << "others have those of the host";
}

TEST(exec_targets, may_be_run_by_another_program) {
  const fc::job job(farcall::test::with_targets(
      "exec:env DIFFERENT_VARIABLE=set sh -c 'exec \"$0\" from shell' '" + program + "'?count=2"));
  ASSERT_EQ(job.targets().size(), 2U);
  for (const fc::node& target : job.targets()) {
    EXPECT_THAT(fc::sync(target, fc::fn<&arguments>), ElementsAre(program, "from", "shell"));
    EXPECT_EQ(fc::sync(target, fc::fn<&variable>, "DIFFERENT_VARIABLE"), "set");
  }
}

TEST(exec_targets, share_little_memory_where_they_are_emulated) {
  // A word that looks like an emulator counts as one, which makes the heaps small.

  const fc::job emulated(farcall::test::with_targets("exec:'" + program + "' /usr/bin/qemu-none"));
  const std::size_t five_gib = std::size_t{5} << 30;
  EXPECT_THROW((void)emulated.targets()[0].allocate<char>(five_gib), fc::out_of_memory);
  EXPECT_NO_THROW((void)emulated.targets()[0].allocate<char>(five_gib / 5));
}

/// Mounts a /proc/meminfo with a pool of huge pages for the calling thread and processes that it
/// starts. Returns false if the system does not allow the mount.
bool see_pool_of_huge_pages(const std::string& as_file) {
  std::ifstream from("/proc/meminfo");
  std::ofstream to(as_file);
  for (std::string line; std::getline(from, line);)
    to << (line.starts_with("HugePages_Total:") ? "HugePages_Total: 64" : line) << '\n';
  to.close();
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(as_file.c_str(), "/proc/meminfo", nullptr, MS_BIND, nullptr) == 0;
}

TEST(exec_targets, join_from_emulators_beside_a_huge_page_pool) {
  const other_program aarch64 = emulated("aarch64");
  if (const std::string why = why_not_here(aarch64); !why.empty()) GTEST_SKIP() << why;
  const std::string file = ::testing::TempDir() + "farcall-meminfo-" + std::to_string(::getpid());
  bool is_seen = false;
  std::thread([&] {
    is_seen = see_pool_of_huge_pages(file);
    if (!is_seen) return;
    fc::job_options options = farcall::test::with_targets(aarch64.url() + ",shm");
    options.start_timeout = farcall::test::wait_limit;
    const fc::job job(options);
    EXPECT_EQ(fc::sync(job.targets().at(0), triple, 4), 12);
    EXPECT_EQ(fc::sync(job.targets().at(1), triple, 4), 12);
  }).join();
  (void)std::remove(file.c_str());
  if (!is_seen) GTEST_SKIP() << "this system lets nobody mount a file";
}

} // namespace
} // namespace different
