#include "tests/network/support.hpp"

#include <farcall/transport/tcp/secret.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/// Paths between nodes that break without a word, while host and server still hear each other.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// The system of this process does not see any more what comes over its TCP connections of now.
int break_paths() {
  sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog filter{1, &drop_all};
  int broken = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int protocol = 0;
    int listens = 0;
    socklen_t size = sizeof protocol;
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
        protocol != IPPROTO_TCP ||
        ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0) {
      continue;
    }
    if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0) ++broken;
  }
  return broken;
}

class network_paths : public testing::TestWithParam<bool> {
 protected:
  network_paths() {
    std::string key;
    if (GetParam()) tcp::write_key_file(key = folder_.file("key"));
    server_.emplace(local_server(key));
    job_options o = network_job(url_of(*server_) + "?count=2", key);
    o.heartbeat_timeout = milliseconds(1000);
    job_.emplace(o);
    there_ = job_->targets()[0];
    other_ = job_->targets()[1];
    pid_ = sync(there_, ::getpid);
  }

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
  // The node lives, and can be reached by new connections.
  EXPECT_TRUE(there_.alive());
  const lane anew(there_);
  EXPECT_EQ(sync(anew, ::getpid), pid_);
}

TEST_P(network_paths, that_are_broken_hold_up_no_copy) {
  const auto memory = there_.allocate<char>(10'000'000);
  const std::vector<char> sent(memory.size(), 'x');
  put(sent, memory).get();
  ASSERT_GE(sync(there_, break_paths), 2);
  // Over a new connection, when the one that there was has been found broken.
  std::vector<char> got(sent.size());
  get(memory, got).get();
  EXPECT_EQ(got, sent);
}

INSTANTIATE_TEST_SUITE_P(with, network_paths, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::test
