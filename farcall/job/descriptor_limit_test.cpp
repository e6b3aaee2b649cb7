// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/descriptor_limit.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::descriptor_limit_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Returns the exit status of a child that runs `f`; a child, because a hard limit cannot be raised
/// again.
template <class F>
int status_of(F f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

void set_limit(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

rlim_t soft_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

TEST(descriptor_limit, is_raised_for_many_nodes) {
  EXPECT_EQ(status_of([] {
              set_limit(256, 4096);
              require_descriptors(500);
              EXPECT_GT(soft_limit(), 2500U);
              EXPECT_LE(soft_limit(), 4096U);
            }),
            0);
}

TEST(descriptor_limit, stays_where_it_is_high_enough) {
  EXPECT_EQ(status_of([] {
              set_limit(1024, 4096);
              require_descriptors(3);
              EXPECT_EQ(soft_limit(), 1024U);
            }),
            0);
}

TEST(descriptor_limit, cannot_be_raised_above_the_hard_limit) {
  EXPECT_EQ(status_of([] {
              set_limit(256, 512);
              EXPECT_THAT(
                  [] { require_descriptors(1000); },
                  ThrowsMessage<start_failed>(AllOf(HasSubstr("1000 more nodes"), HasSubstr("512"),
                                                    HasSubstr("ulimit -Hn"))));
            }),
            0);
}

} // namespace
} // namespace farcall::descriptor_limit_test
