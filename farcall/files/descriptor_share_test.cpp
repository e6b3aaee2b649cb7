// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/descriptor_share.hpp>

#include <gtest/gtest.h>

#include <cstdint>

#include <fcntl.h>
#include <sys/resource.h>

namespace farcall::files::descriptor_share_test {
namespace {

TEST(descriptor_shares, are_whole_where_there_are_many_descriptors) {
  for (const std::uint64_t limit : {std::uint64_t{1} << 20, std::uint64_t{RLIM_INFINITY}}) {
    const descriptor_share each = share_of_target(100, limit);
    EXPECT_EQ(each.files, max_open_files);
    EXPECT_EQ(each.locks, max_held_locks);
  }
}

TEST(descriptor_shares, leave_descriptors_to_the_host_and_to_other_targets) {
  for (const std::uint64_t limit : {1024, 4096}) {
    for (const std::size_t targets : {1, 2, 10, 50}) {
      const descriptor_share each = share_of_target(targets, limit);
      EXPECT_LE((each.files + each.locks) * targets + spare_descriptors, limit) << targets;
      EXPECT_GE(each.files, each.locks);
      EXPECT_GE(each.locks, 1U);
    }
  }
}

TEST(descriptor_shares, allow_one_file_under_any_limit) {
  EXPECT_EQ(share_of_target(0, 0).files, 1U);
  EXPECT_EQ(share_of_target(1000, 1024).files, 1U);
}

TEST(spare_descriptors, are_made_by_raising_the_soft_limit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_GE(before.rlim_max, 1024U);
  const rlimit low{300, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  rlimit now{};
  keep_spare_descriptors(300 - static_cast<int>(spare_descriptors) - 1);
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 300U);
  keep_spare_descriptors(300 - static_cast<int>(spare_descriptors));
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_GT(now.rlim_cur, 300U);
  EXPECT_LE(now.rlim_cur, now.rlim_max);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

} // namespace
} // namespace farcall::files::descriptor_share_test
