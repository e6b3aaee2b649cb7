// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/base/unique_fd.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/// Tests paths between nodes that break silently, while the connection of host and server works.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// Makes the system drop, or accept again, incoming packets of this process's current TCP
/// connections. Returns the number of connections.
int set_paths(bool are_whole) {
  sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog filter{1, &drop_all};
  int done = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int protocol = 0;
    int listens = 0;
    socklen_t size = sizeof protocol;
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
        protocol != IPPROTO_TCP ||
        ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0) {
      continue;
    }
    if (::setsockopt(fd, SOL_SOCKET, are_whole ? SO_DETACH_FILTER : SO_ATTACH_FILTER, &filter,
                     sizeof filter) == 0) {
      ++done;
    }
  }
  return done;
}
int break_paths() { return set_paths(false); }

bool may_break_paths() {
  const unique_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  sock_filter take_all{BPF_RET | BPF_K, 0, 0, UINT32_MAX};
  const sock_fprog filter{1, &take_all};
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

/// Two targets that reach each other by TCP, as one of them was not started by a server.
class network_paths : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!may_break_paths()) GTEST_SKIP() << "filters of sockets are not allowed here (root?)";
    const std::string key = folder_.make_key(GetParam());
    server_.emplace(local_server(key));
    job_options o = network_job(url_of(*server_) + ",shm", key);
    o.heartbeat_timeout = timeout;
    job_.emplace(o);
    there_ = job_->targets()[0];
    other_ = job_->targets()[1];
    pid_ = sync(there_, ::getpid);
  }

  static constexpr milliseconds timeout{1000};
  /// Length of a break without failures; the rest of the timeout is a reserve for a busy machine.
  static constexpr milliseconds shorter_break = timeout * 7 / 10;
  captured_log log_;
  scratch_folder folder_;
  std::optional<server> server_;
  std::optional<job> job_;
  node there_;
  node other_;
  pid_t pid_ = 0;
};

TEST_P(network_paths, that_are_broken_fail_the_calls_on_them) {
  const auto ask = [](const node& n) { return sync(n, ::getpid); };
  ASSERT_EQ(sync(other_, ask, there_), pid_);
  ASSERT_GE(sync(there_, break_paths), 2);
  future<pid_t> of_host = async(there_, ::getpid);
  future<pid_t> of_other = async(other_, ask, there_);
  EXPECT_THAT([&] { (void)of_host.get(); },
              testing::ThrowsMessage<node_failed>(HasSubstr("node 1")));
  EXPECT_THROW((void)of_other.get(), remote_error);
  EXPECT_TRUE(log_.comes_to_say("is broken: what was sent there was not acknowledged"));
  // The node lives, and new connections reach it.
  EXPECT_TRUE(there_.alive());
  const lane anew(there_);
  EXPECT_EQ(sync(anew, ::getpid), pid_);
}

TEST_P(network_paths, that_are_broken_block_no_copy) {
  const auto memory = there_.allocate<char>(10'000'000);
  const std::vector<char> sent(memory.size(), 'x');
  put(sent, memory).get();
  ASSERT_GE(sync(there_, break_paths), 2);
  // Uses a new connection once the old one is found broken.
  std::vector<char> got(sent.size());
  get(memory, got).get();
  EXPECT_EQ(got, sent);
}

/// Breaks the paths of the host and the server, which are in this process, and of a target.
TEST_P(network_paths, that_come_back_in_time_lose_nothing) {
  std::vector<future<int>> calls;
  const auto call = [&](const node& n) {
    const int number = static_cast<int>(calls.size());
    calls.push_back(async(n, [](int i) { return i; }, number));
  };
  call(there_);
  ASSERT_GE(break_paths(), 2);
  call(there_);
  std::this_thread::sleep_for(shorter_break);
  call(other_);
  set_paths(true);
  // Wait, so that the request of the next break acknowledges the target's bytes; otherwise the two
  // breaks would add up.
  for (future<int>& earlier : calls)
    earlier.wait();
  future<int> mended = async(
      there_,
      [](int ms) {
        break_paths();
        std::this_thread::sleep_for(milliseconds(ms));
        return set_paths(true);
      },
      static_cast<int>(shorter_break.count()));
  call(there_);
  EXPECT_GE(mended.get(), 1);
  call(there_);
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(calls[i].get(), static_cast<int>(i));
  EXPECT_EQ(log_.count("broken"), 0U) << log_.text();
}

/// While the path is broken, the system sends only probes of idle connections.
TEST_P(network_paths, that_come_back_in_time_lose_no_long_call) {
  future<int> call = async(there_, [] {
    std::this_thread::sleep_for(3 * timeout);
    return 1;
  });
  std::this_thread::sleep_for(timeout * 3 / 10);
  ASSERT_GE(break_paths(), 2);
  std::this_thread::sleep_for(shorter_break);
  set_paths(true);
  EXPECT_EQ(call.get(), 1);
  EXPECT_EQ(log_.count("broken"), 0U) << log_.text();
}

INSTANTIATE_TEST_SUITE_P(with, network_paths, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::test
