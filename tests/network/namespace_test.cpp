// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include <fcntl.h>
#include <sched.h>

/// Tests a host and a server in their own network namespaces, connected by a link that can be slow,
/// and cut.
namespace farcall::test::namespace_test {
namespace {

using testing::HasSubstr;

constexpr const char* host_address = "10.203.77.1";
constexpr const char* server_address = "10.203.77.2";
constexpr std::chrono::seconds at_the_latest{20};

constexpr const char* namespace_variable = "FARCALL_TEST_NETNS";
constexpr const char* key_variable = "FARCALL_TEST_KEY";
constexpr const char* url_variable = "FARCALL_TEST_URL";

/// Enters the namespace; call before this process has a second thread.
void enter_namespace() {
  const std::string path = std::string("/run/netns/") + std::getenv(namespace_variable);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) std::exit(90);
  ::close(fd);
}

int be_server() {
  enter_namespace();
  block_end_signals();
  server_options o = local_server(std::getenv(key_variable));
  o.listen.host = server_address;
  server s(o);
  serve_until_signalled(s);
  return 0;
}
const role server_role("namespace_server", be_server);

job_options far_job() {
  job_options o = network_job(std::string(std::getenv(url_variable)) + "?count=2,shm",
                              std::getenv(key_variable));
  o.heartbeat_timeout = std::chrono::milliseconds(500);
  return o;
}

std::uint64_t sum(const std::vector<std::uint32_t>& v) {
  std::uint64_t all = 0;
  for (const std::uint32_t x : v)
    all += x;
  return all;
}

int use_link() {
  enter_namespace();
  const job j(far_job());
  for (const node& n : j.targets()) {
    for (int i = 0; i < 200; ++i) {
      if (sync(n, [](int v) { return v + 1; }, i) != i + 1) return 1;
    }
    const std::vector<std::uint32_t> sent(250'000, 3);
    if (sync(n, sum, sent) != 750'000) return 2;
    const auto there = n.allocate<std::uint32_t>(sent.size());
    put(sent, there).get();
    std::vector<std::uint32_t> got(sent.size());
    get(there, got).get();
    if (got != sent) return 3;
    if (sync(n, [] { return sync(host(), [](int v) { return v; }, 5); }) != 5) return 4;
  }
  const auto ask = [](const node& n) { return sync(n, [] { return 6; }); };
  if (sync(j.targets()[2], ask, j.targets()[0]) != 6) return 5;
  if (sync(j.targets()[0], ask, j.targets()[2]) != 6) return 6;
  if (sync(j.targets()[0], ask, j.targets()[1]) != 6) return 7;
  // More bytes than the link carries within the heartbeat timeout: slow is not failed.
  const std::vector<std::uint32_t> large(1'500'000, 1);
  if (sync(j.targets()[0], sum, large) != large.size()) return 8;
  return 0;
}
const role link_role("namespace_use_link", use_link);

int lose_link() {
  enter_namespace();
  const job j(far_job());
  for (const node& n : j.targets())
    say(std::to_string(sync(n, ::getpid)));
  future<void> f = async(j.targets()[0], [] { ::usleep(60'000'000); });
  future<void> between = async(
      j.targets()[2], [](const node& n) { sync(n, [] { ::usleep(60'000'000); }); }, j.targets()[1]);
  say("ready");
  try {
    f.get();
    return 1;
  } catch (const node_failed& e) {
    say(e.what());
  }
  try {
    between.get();
    return 2;
  } catch (const remote_error& e) {
    say(e.what());
  }
  return sync(j.targets()[2], [] { return 0; });
}
const role loser_role("namespace_lose_link", lose_link);

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

class network_namespaces : public testing::Test {
 protected:
  void SetUp() override {
    const std::string id = std::to_string(::getpid());
    host_ = "farcall-h" + id;
    server_ = "farcall-s" + id;
    if (!runs("ip netns add " + host_) || !runs("ip netns add " + server_) ||
        !runs("ip link add h0 netns " + host_ + " type veth peer name s0 netns " + server_)) {
      GTEST_SKIP() << "network namespaces cannot be made here (root? ip?)";
    }
    if (!set_up(host_, "h0", host_address) || !set_up(server_, "s0", server_address)) {
      GTEST_SKIP() << "addresses, or limits of rate (tc tbf), cannot be set here";
    }
    key_ = folder_.file("key");
    // A client's key, which nodes do not need among themselves.
    tcp::write_key_file(key_, "alice");
    ::setenv(key_variable, key_.c_str(), 1);
    ::setenv(namespace_variable, server_.c_str(), 1);
    serving_.emplace("namespace_server");
    const std::string line = serving_->line();
    ASSERT_THAT(line, HasSubstr(server_address));
    ::setenv(url_variable, line.substr(20, line.find(',') - 20).c_str(), 1);
    ::setenv(namespace_variable, host_.c_str(), 1);
  }

  void TearDown() override {
    serving_.reset();
    (void)runs("ip netns del " + host_);
    (void)runs("ip netns del " + server_);
    for (const char* v : {key_variable, namespace_variable, url_variable})
      ::unsetenv(v);
  }

  static bool set_up(const std::string& where, const std::string& link,
                     const std::string& address) {
    const std::string in = "ip -n " + where + " ";
    return runs(in + "addr add " + address + "/30 dev " + link) && runs(in + "link set lo up") &&
           runs(in + "link set " + link + " up") &&
           runs("tc -n " + where + " qdisc add dev " + link +
                " root tbf rate 40mbit burst 64kb latency 50ms");
  }

  scratch_folder folder_;
  std::string key_;
  std::string host_;
  std::string server_;
  std::optional<role_process> serving_;
};

TEST_F(network_namespaces, jobs_work_over_a_link_with_a_limited_rate) {
  role_process host("namespace_use_link");
  EXPECT_EQ(host.wait(std::chrono::seconds(100)), 0);
}

TEST_F(network_namespaces, a_broken_link_ends_nodes_on_both_sides) {
  role_process host("namespace_lose_link");
  std::vector<pid_t> pids;
  for (int i = 0; i < 3; ++i)
    pids.push_back(std::stoi(host.line()));
  pids.pop_back(); // runs on the host's side
  ASSERT_EQ(host.line(), "ready");
  ASSERT_TRUE(runs("ip -n " + server_ + " link set s0 down"));
  EXPECT_THAT(host.line(), testing::AllOf(HasSubstr("node 1"), HasSubstr(server_address)));
  EXPECT_THAT(host.line(), HasSubstr("node 2"));
  EXPECT_EQ(host.wait(at_the_latest), 0);
  EXPECT_TRUE(all_end_within(pids, at_the_latest));
}

TEST_F(network_namespaces, a_server_behind_a_missing_link_times_out) {
  ASSERT_TRUE(runs("ip -n " + server_ + " link set s0 down"));
  role_process host("namespace_use_link");
  // An uncaught exception ends the host.
  EXPECT_LT(host.wait(std::chrono::seconds(60)), 0);
}

} // namespace
} // namespace farcall::test::namespace_test
