// Targets whose command line is given.
#include "tests/different_builds/different_builds.hpp"
#include "tests/different_builds/program.hpp"
#include "tests/different_builds/values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  // A word that looks like an emulator counts as one: the heaps are small then.

  const fc::job emulated(farcall::test::with_targets("exec:'" + program + "' /usr/bin/qemu-none"));
  const std::size_t five_gib = std::size_t{5} << 30;
  EXPECT_THROW((void)emulated.targets()[0].allocate<char>(five_gib), fc::out_of_memory);
  EXPECT_NO_THROW((void)emulated.targets()[0].allocate<char>(five_gib / 5));
}

} // namespace
} // namespace different
