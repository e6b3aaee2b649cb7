// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/server/client_quota.hpp>
#include <tests/child.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::test::client_quota_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<unsigned> own_cpus() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<unsigned> all;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  }
  return all;
}

TEST(client_quota, is_the_number_of_targets) {
  detail::client_limits limits;
  EXPECT_NO_THROW(detail::require_space("alice", limits, 1000));
  limits.targets = 2;
  EXPECT_NO_THROW(detail::require_space("alice", limits, 1));
  EXPECT_THAT([&] { detail::require_space("alice", limits, 2); },
              ThrowsMessage<start_failed>(AllOf(HasSubstr("alice has 2"), HasSubstr("targets="))));
}

TEST(client_quota, restricts_a_thread_to_its_cpus_for_a_while) {
  const std::vector<unsigned> before = own_cpus();
  {
    const detail::cpu_restriction to_one("alice", {before.back()});
    EXPECT_THAT(own_cpus(), ElementsAre(before.back()));
  }
  EXPECT_EQ(own_cpus(), before);
  const detail::cpu_restriction to_all("alice", {});
  EXPECT_EQ(own_cpus(), before);
}

TEST(client_quota, refuses_cpus_that_the_machine_lacks) {
  const std::vector<unsigned> before = own_cpus();
  EXPECT_THAT([] { const detail::cpu_restriction none("alice", {CPU_SETSIZE - 1}); },
              ThrowsMessage<start_failed>(AllOf(HasSubstr("alice"), HasSubstr("cpus="))));
  EXPECT_EQ(own_cpus(), before);
}

TEST(client_quota, limits_the_memory_of_another_process) {
  constexpr std::uint64_t bytes = std::uint64_t{64} << 20;
  const forked_child other([] { return ::pause(); });
  detail::limit_memory(other.pid(), bytes);
  rlimit limit{};
  ASSERT_EQ(::prlimit(other.pid(), RLIMIT_DATA, nullptr, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, bytes);
  EXPECT_EQ(limit.rlim_max, bytes);
}

TEST(client_quota, counts_connections_until_their_process_closes_them) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  unique_fd closed(ends[0]);
  const unique_fd open(ends[1]);
  detail::taken_connections all;
  all.add(tcp::number_of(closed.get()));
  all.add(tcp::number_of(open.get()));
  all.forget_closed(::getpid());
  EXPECT_EQ(all.most(), 2U);
  closed.reset();
  EXPECT_EQ(all.most(), 2U);
  all.forget_closed(::getpid());
  EXPECT_EQ(all.most(), 1U);
}

} // namespace
} // namespace farcall::test::client_quota_test
