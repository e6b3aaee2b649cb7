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

/// Many targets on servers: they are started at the same time, and all or none.
namespace farcall::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t targets = 8;

/// A server in a process of its own, so that ours has the descriptors of a host alone.
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

/// A host that waited for the reply to one before it talked to the next would not get it.
TEST_P(network_starts, ask_all_before_any_is_answered) {
  server s(local_server(key_));
  proxy between(port_of(s));
  between.hold_until_said_to(targets);
  const job j(network_job(counted(between.url()), key_));
  between.hold_until_said_to(0);
  ASSERT_EQ(j.targets().size(), targets);
  for (const node& n : j.targets())
    EXPECT_NE(sync(n, ::getpid), ::getpid());
}

TEST_P(network_starts, of_targets_that_are_added_ask_all_too) {
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

TEST_P(network_starts, of_which_one_fails_name_it_and_leave_none) {
  server s(local_server(key_));
  // Bound by nobody once it is closed here.
  const std::uint16_t closed =
      tcp::local_address(tcp::listen_on({"127.0.0.1", 0}).front().get()).port;
  const std::string bad = "tcp://127.0.0.1:" + std::to_string(closed);
  const auto start = [&] { const job j(network_job(counted(url_of(s)) + "," + bad, key_)); };
  EXPECT_THAT(start, testing::ThrowsMessage<start_failed>(AllOf(
                         HasSubstr("node 9 (" + bad + ")"), HasSubstr("nothing listens there"))));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

TEST_P(network_starts, of_which_one_stays_silent_end_with_the_deadline) {
  server s(local_server(key_));
  proxy silent(port_of(s));
  silent.hold_until_said_to(targets);
  job_options o = network_job(counted(url_of(s)) + "," + silent.url(), key_);
  o.start_timeout = std::chrono::milliseconds(500);
  EXPECT_THAT([&] { const job j(o); },
              testing::ThrowsMessage<start_failed>(
                  AllOf(HasSubstr("node 9 (" + silent.url() + ")"), HasSubstr("does not answer"))));
  EXPECT_TRUE(comes_true([&] { return s.targets() == 0; }));
}

/// Its connection; lanes come with calls.
TEST(network_start, of_a_target_costs_the_host_one_descriptor) {
  role_process alone("serve_alone");
  const std::string url = alone.line();
  ASSERT_THAT(url, testing::StartsWith("tcp://"));
  const std::size_t of_one = descriptors_of_job(url);
  (void)settled_holdings();
  EXPECT_EQ(descriptors_of_job(counted(url)) - of_one, targets - 1);
}

/// Nothing was late then.
TEST(network_start, of_which_the_server_ends_says_so) {
  server_options o = local_server();
  // It never reports.
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

/// Also the lane that this thread keeps to each.
TEST(network_start, of_a_target_that_has_been_removed_leaves_no_descriptor) {
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

/// They are let in before any has said which target it wants.
TEST_P(network_starts, of_which_a_server_has_no_room_for_one_say_so) {
  server_options o = local_server(key_);
  o.most_targets = targets - 1;
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
