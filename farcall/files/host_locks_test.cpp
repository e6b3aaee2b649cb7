// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/files_test_support.hpp>
#include <farcall/files/host_locks.hpp>

#include <cerrno>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::files::host_locks_test {
namespace {

class host_locks_of_a_file : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "host_locks_XXXXXX";
    first_ = unique_fd(::mkstemp(name.data()));
    second_ = unique_fd(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::unlink(name.c_str()), 0);
    ASSERT_TRUE(first_ && second_);
  }

  std::int64_t set(const unique_fd& file, short type, std::uint64_t owner, std::int64_t start = 0,
                   std::int64_t bytes = 0) {
    farcall_io_lock found{};
    return locks_.perform(file.get(), true, FARCALL_IO_LOCK_SET, lock(type, owner, start, bytes),
                          found);
  }

  static farcall_io_lock lock(short type, std::uint64_t owner, std::int64_t start,
                              std::int64_t bytes) {
    farcall_io_lock made{};
    made.type = type;
    made.owner = owner;
    made.start = start;
    made.bytes = bytes;
    return made;
  }

  host_locks locks_;
  unique_fd first_;
  unique_fd second_;
};

TEST_F(host_locks_of_a_file, exclude_other_owners_only) {
  EXPECT_EQ(set(first_, F_WRLCK, 1, 0, 10), 0);
  EXPECT_EQ(set(second_, F_WRLCK, 1, 5, 10), 0);
  EXPECT_EQ(set(second_, F_RDLCK, 2, 5, 1), -EAGAIN);
  farcall_io_lock found{};
  EXPECT_EQ(
      locks_.perform(second_.get(), true, FARCALL_IO_LOCK_TEST, lock(F_RDLCK, 2, 0, 0), found), 0);
  EXPECT_EQ(found.type, F_WRLCK);
  EXPECT_EQ(set(first_, F_UNLCK, 1), 0);
  EXPECT_EQ(set(second_, F_RDLCK, 2, 5, 1), 0);
}

TEST_F(host_locks_of_a_file, are_removed_without_having_been_set) {
  EXPECT_EQ(set(first_, F_UNLCK, 1), 0);
  EXPECT_EQ(set(first_, F_UNLCK, 1, 3, 4), 0);
}

/// One target must not take all descriptors of its host.
TEST_F(host_locks_of_a_file, have_a_limit_of_owners) {
  for (std::uint64_t owner = 0; owner < max_held_locks; ++owner)
    ASSERT_EQ(set(first_, F_RDLCK, owner), 0) << owner;
  EXPECT_EQ(set(first_, F_RDLCK, max_held_locks), -ENOLCK);
  EXPECT_EQ(set(first_, F_UNLCK, 7), 0);
  EXPECT_EQ(set(first_, F_RDLCK, max_held_locks), 0);
}

/// An open file may have a mode that does not allow to open it again.
TEST_F(host_locks_of_a_file, are_set_where_the_file_cannot_be_opened_again) {
  ASSERT_EQ(::fchmod(first_.get(), 0), 0);
  const test::ordinary_user other;
  if (!other.is_active()) GTEST_SKIP() << "root cannot be another user here";
  EXPECT_EQ(set(first_, F_WRLCK, 1, 0, 10), 0);
  struct flock lock{};
  lock.l_type = F_RDLCK;
  EXPECT_NE(::fcntl(second_.get(), F_OFD_SETLK, &lock), 0) << "another program";
  EXPECT_EQ(set(first_, F_UNLCK, 1), 0);
  EXPECT_EQ(::fcntl(second_.get(), F_OFD_SETLK, &lock), 0);
}

} // namespace
} // namespace farcall::files::host_locks_test
