// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/socket.hpp>

#include <cstddef>
#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

/// Tests many targets on servers: they start concurrently, and all or none.
namespace farcall::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t targets = 8;

/// A server in its own process, so that this process has only a host's descriptors.
int serve_alone() {
  block_end_signals();
  server s(local_server());
  say(url_of(s));
  serve_until_signalled(s);
  return 0;
}
const role alone_role("serve_alone", serve_alone);

std::size_t descriptors_of_job(const std::string& url) {
  const std::size_t before = open_descriptors();
  const job j(network_job(url));
  return open_descriptors() - before;
}

class network_starts : public testing::TestWithParam<bool> {
 protected:
  network_starts() { key_ = folder_.make_key(GetParam()); }

  scratch_folder folder_;
  std::string key_;
};

std::string counted(const std::string& url) { return url + "?count=" + std::to_string(targets); }

/// A host that waits for one reply before the next request would never get it.
TEST_P(network_starts, ask_all_servers_before_any_replies) {
  server s(local_server(key_));
  proxy between(port_of(s));
  between.hold_until_said_to(targets);
  const job j(network_job(counted(between.url()), key_));
  between.hold_until_said_to(0);
  ASSERT_EQ(j.targets().size(), targets);
  for (const node& n : j.targets())
    EXPECT_NE(sync(n, ::getpid), ::getpid());
}

TEST_P(network_starts, ask_all_added_targets_at_once) {
  server s(local_server(key_));
  proxy between(port_of(s));
  job j(network_job(url_of(s), key_));
  between.hold_until_said_to(targets);
  const std::vector<node> added = j.add(std::vector{counted(between.url())});
  between.hold_until_said_to(0);
  ASSERT_EQ(added.size(), targets);
  for (const node& n : added)
    EXPECT_NE(sync(n, ::getpid), ::getpid());
}

TEST_P(network_starts, name_a_failed_target_and_leave_none) {
  server s(local_server(key_));
  // The port is free once the listener is closed.
  const std::uint16_t closed =
      tcp::local_address(tcp::listen_on({"127.0.0.1", 0}).front().get()).port;
  const std::string bad = "tcp://127.0.0.1:" + std::to_string(closed);
  const auto start = [&] { const job j(network_job(counted(url_of(s)) + "," + bad, key_)); };
  EXPECT_THAT(start, testing::ThrowsMessage<start_failed>(AllOf(
                         HasSubstr("node 9 (" + bad + ")"), HasSubstr("nothing listens there"))));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

TEST_P(network_starts, end_with_the_deadline_if_one_is_silent) {
  server s(local_server(key_));
  proxy silent(port_of(s));
  silent.hold_until_said_to(targets);
  job_options o = network_job(counted(url_of(s)) + "," + silent.url(), key_);
  o.start_timeout = std::chrono::milliseconds(500);
  EXPECT_THAT([&] { const job j(o); },
              testing::ThrowsMessage<start_failed>(
                  AllOf(HasSubstr("node 9 (" + silent.url() + ")"), HasSubstr("does not reply"))));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

/// The target's connection; lanes are made by calls.
TEST(network_start, takes_one_descriptor_per_target) {
  role_process alone("serve_alone");
  const std::string url = alone.line();
  ASSERT_THAT(url, testing::StartsWith("tcp://"));
  const std::size_t of_one = descriptors_of_job(url);
  (void)settled_holdings();
  EXPECT_EQ(descriptors_of_job(counted(url)) - of_one, targets - 1);
}

/// The error must not say that the target was late.
TEST(network_start, reports_that_the_server_has_ended) {
  server_options o = local_server();
  // Never reports.
  o.program = "/bin/sleep";
  o.arguments = {"sleep", "1000"};
  server s(o);
  proxy between(port_of(s));
  std::future<void> starting =
      std::async(std::launch::async, [&] { const job j(network_job(between.url())); });
  ASSERT_TRUE(comes_true([&] { return s.targets() == 1; }));
  between.finish();
  EXPECT_THAT([&] { starting.get(); },
              testing::ThrowsMessage<start_failed>(
                  AllOf(HasSubstr("node 1"), HasSubstr("ended before it could report"))));
}

/// Includes the lane that this thread keeps to each target.
TEST(network_start, leaves_no_descriptor_of_a_removed_target) {
  role_process alone("serve_alone");
  const std::string url = alone.line();
  job j(network_job(url));
  (void)sync(j.targets()[0], ::getpid);
  const auto come_and_go = [&] {
    const node added = j.add(std::vector{url}).front();
    (void)sync(added, ::getpid);
    j.remove(added);
  };
  come_and_go();
  (void)settled_holdings();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 5; ++i)
    come_and_go();
  EXPECT_TRUE(comes_true([&] { return open_descriptors() == before; }))
      << open_descriptors() << " descriptors, " << before << " before";
}

/// All connections are admitted before any of them has sent its request.
TEST_P(network_starts, report_a_full_server) {
  server_options o = local_server(key_);
  o.max_targets = targets - 1;
  server s(o);
  const auto start = [&] { const job j(network_job(counted(url_of(s)), key_)); };
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(start,
                testing::ThrowsMessage<start_failed>(HasSubstr("as many targets as it may have")));
    EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
  }
}

INSTANTIATE_TEST_SUITE_P(with, network_starts, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::test
