// SPDX-License-Identifier: Apache-2.0
#include "unseen_program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::tool {
namespace {

using testing::HasSubstr;

struct stat file_of(uid_t owner, mode_t mode) {
  struct stat file{};
  file.st_uid = owner;
  file.st_gid = ::getegid();
  file.st_mode = S_IFREG | mode;
  return file;
}

TEST(unseen_program, is_one_that_runs_as_another_user) {
  const uid_t own = ::geteuid();
  EXPECT_THAT(why_unseen("/usr/bin/su", file_of(own + 1, 04755)), HasSubstr("su is a set-user-ID"));
  EXPECT_EQ(why_unseen("/usr/bin/su", file_of(own, 04755)), "");
  EXPECT_EQ(why_unseen("/usr/bin/su", file_of(own + 1, 0755)), "");
}

TEST(unseen_program, is_one_that_other_processes_start) {
  const struct stat file = file_of(::geteuid(), 0755);
  EXPECT_THAT(why_unseen("/usr/bin/srun", file), HasSubstr("'srun ... farcall prof -- ./app'"));
  EXPECT_EQ(why_unseen("/usr/bin/srunner", file), "");
}

} // namespace
} // namespace farcall::tool
