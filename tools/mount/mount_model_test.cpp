// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tools/io/io_model.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

/// Tests of random operations on files of a mount, and on their shared mappings.
namespace farcall::test::mount_model_test {
namespace {

std::string name_of_route(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

/// Runs random operations on a file, with descriptors and with mappings, in a program of the
/// target. Returns the first difference, or an empty text.
std::string run_model(const std::string& path, std::uint64_t seed, std::uint64_t operations) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string wrong = file_model(path, seed, true).run(operations);
    (void)!::write(ends[1], wrong.data(), wrong.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string wrong = content_of(ends[0]);
  int status = -1;
  if (::waitpid(child, &status, 0) != child || status != 0) wrong += " the program has failed";
  return wrong;
}

class mounted_files_at_random : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, mounted_files_at_random, ::testing::Values("shm", "tcp"),
                         name_of_route);

TEST_P(mounted_files_at_random, match_a_copy_in_memory) {
  const random_run chosen;
  EXPECT_EQ(sync(target_, fn<&run_model>, in("file"), chosen.seed, chosen.operations), "")
      << "FARCALL_TEST_SEED=" << chosen.seed;
}

class strict_mounts_at_random : public mounting_job {
 protected:
  void SetUp() override {
    const scoped_variable strict("FARCALL_HOST_FILES_CACHE", "strict");
    mounting_job::SetUp();
  }
};

INSTANTIATE_TEST_SUITE_P(over, strict_mounts_at_random, ::testing::Values("shm", "tcp"),
                         name_of_route);

TEST_P(strict_mounts_at_random, match_a_copy_in_memory) {
  const random_run chosen;
  EXPECT_EQ(sync(target_, fn<&run_model>, in("file"), chosen.seed, chosen.operations), "")
      << "FARCALL_TEST_SEED=" << chosen.seed;
}

} // namespace
} // namespace farcall::test::mount_model_test
