// SPDX-License-Identifier: Apache-2.0
#include "tests/network/separate_server.hpp"
#include "tests/network/support.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Tests servers that only the host reaches, for instance through `ssh -L` and `kubectl
/// port-forward`, and targets that cannot reach each other: they communicate through the host.
namespace farcall::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string route_to(const node& n) { return n.description().route; }

/// Makes connect() fail on all threads of this process, like a firewall that refuses.
int forbid_connecting() {
  std::array<sock_filter, 4> code{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_connect},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ECONNREFUSED},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return static_cast<int>(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter));
}

class network_tunnels : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!separate_server::is_possible()) GTEST_SKIP() << "no namespaces of users can be made here";
    key_ = folder_.make_key(GetParam());
  }

  void start(separate_server::network first, separate_server::network second) {
    first_.emplace(1001, first, key_);
    second_.emplace(1002, second, key_);
    job_.emplace(network_job(first_->url() + "," + second_->url(), key_));
    a_ = job_->targets()[0];
    b_ = job_->targets()[1];
  }

  /// Checks calls, exceptions and copies from one node to the other.
  static void expect_all_works(const node& from, const node& to) {
    const auto fail_there = [](const node& n) {
      sync(n, [] { throw std::runtime_error("as it should"); });
    };
    EXPECT_EQ(sync(from, [](const node& n) { return sync(n, ::getpid); }, to), sync(to, ::getpid));
    EXPECT_THAT([&] { sync(from, fail_there, to); },
                testing::ThrowsMessage<remote_error>(HasSubstr("as it should")));
    const auto copy_there = [](const node& n) {
      std::vector<std::uint32_t> sent(1'500'000);
      for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] = static_cast<std::uint32_t>(i * 2'654'435'761U);
      const auto there = n.allocate<std::uint32_t>(sent.size());
      put(sent, there).get();
      std::vector<std::uint32_t> got(sent.size());
      get(there, got).get();
      return got == sent;
    };
    EXPECT_TRUE(sync(from, copy_there, to));
    const auto stream_there = [](const node& n) {
      std::vector<future<std::size_t>> all;
      const std::vector<char> argument(3000);
      all.reserve(2000);
      for (int i = 0; i < 2000; ++i)
        all.push_back(async(n, [](const std::vector<char>& v) { return v.size(); }, argument));
      std::size_t sum = 0;
      for (future<std::size_t>& f : all)
        sum += f.get();
      return sum;
    };
    EXPECT_EQ(sync(from, stream_there, to), 6'000'000U);
  }

  captured_log log_;
  scratch_folder folder_;
  std::string key_;
  std::optional<separate_server> first_;
  std::optional<separate_server> second_;
  std::optional<job> job_;
  node a_;
  node b_;
};

TEST_P(network_tunnels, connect_targets_through_the_host) {
  start(separate_server::network::own, separate_server::network::own);
  EXPECT_THAT(sync(a_, route_to, b_), HasSubstr("by way of the host"));
  EXPECT_THAT(route_to(a_), Not(HasSubstr("by way of")));
  expect_all_works(a_, b_);
  expect_all_works(b_, a_);
}

TEST_P(network_tunnels, may_lead_to_one_of_two_servers) {
  start(separate_server::network::own, separate_server::network::ours);
  EXPECT_THAT(sync(b_, route_to, a_), HasSubstr("TCP"));
  expect_all_works(a_, b_);
  expect_all_works(b_, a_);
}

TEST_P(network_tunnels, are_not_needed_where_connections_are_refused) {
  start(separate_server::network::ours, separate_server::network::ours);
  ASSERT_EQ(sync(a_, forbid_connecting), 0);
  expect_all_works(a_, b_);
  EXPECT_TRUE(log_.comes_to_say("is reached by way of the host from now on"));
  expect_all_works(b_, a_);
}

TEST_P(network_tunnels, are_not_needed_if_the_asked_node_cannot_connect) {
  start(separate_server::network::own, separate_server::network::ours);
  ASSERT_EQ(sync(b_, forbid_connecting), 0);
  expect_all_works(a_, b_);
  EXPECT_TRUE(log_.comes_to_say("node 2 was asked to connect, and could not"));
  expect_all_works(b_, a_);
}

TEST_P(network_tunnels, report_a_nodes_end_to_its_callers) {
  start(separate_server::network::own, separate_server::network::own);
  const auto kill_there = [](const node& n) { sync(n, [] { ::_exit(7); }); };
  EXPECT_THAT([&] { sync(a_, kill_there, b_); },
              testing::ThrowsMessage<remote_error>(HasSubstr("node 2")));
  EXPECT_EQ(sync(a_, [] { return 5; }), 5);
}

INSTANTIATE_TEST_SUITE_P(with, network_tunnels, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::test
