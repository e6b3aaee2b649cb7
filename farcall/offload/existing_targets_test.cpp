// SPDX-License-Identifier: Apache-2.0

// Jobs of processes that exist already, such as a launcher's ranks.

#include <farcall/async/call.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/node_change.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/control_socket.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <future>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test::existing_targets_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int status_after_the_job = 17;

/// A process that existed before the job: a fork, which serves the job and then goes on.
class rank {
 public:
  rank() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw error("no socket");
    socket = ends[0];
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      serve_as_target(ends[1]);
      ::_exit(status_after_the_job);
    }
    ::close(ends[1]);
  }
  rank(const rank&) = delete;
  rank& operator=(const rank&) = delete;
  ~rank() {
    if (pid_ != 0) {
      ::kill(pid_, SIGKILL);
      (void)wait();
    }
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Waits for the process. Returns its exit status, or -1 if a signal has ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int socket = -1;

 private:
  pid_t pid_ = 0;
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1 || errno != EBADF; }

pid_t own_pid() { return ::getpid(); }
int ask_host(int v) { return sync(node_at(host_id), fn<&own_pid>) + v; }
void end_at_once() { std::raise(SIGKILL); }

TEST(existing_targets, become_nodes_and_go_on_after_the_job) {
  rank first;
  rank second;
  {
    job_options o;
    o.existing_targets = {first.socket, second.socket};
    job j(o);
    ASSERT_EQ(j.size(), 3U) << "no others are started";
    EXPECT_EQ(sync(j.targets()[0], fn<&own_pid>), first.pid());
    EXPECT_EQ(sync(j.targets()[1], fn<&own_pid>), second.pid());
    EXPECT_EQ(sync(j.targets()[1], fn<&ask_host>, 1), ::getpid() + 1);
    EXPECT_EQ(j.targets()[0].description().transport, "shm");
  }
  EXPECT_FALSE(is_open(first.socket));
  EXPECT_EQ(first.wait(), status_after_the_job);
  EXPECT_EQ(second.wait(), status_after_the_job);
}

TEST(existing_targets, are_numbered_after_started_targets) {
  rank last;
  job_options o;
  o.targets = "shm:2";
  o.existing_targets = {last.socket};
  job j(o);
  ASSERT_EQ(j.size(), 4U);
  EXPECT_EQ(sync(j.targets()[2], fn<&own_pid>), last.pid());
  EXPECT_NE(sync(j.targets()[0], fn<&own_pid>), last.pid());
}

TEST(existing_targets, may_be_added_to_a_job_without_targets) {
  // Fork first, because ThreadSanitizer allows no threads after a fork of a process with threads.
  rank first;
  rank second;
  job j(with_targets("none"));
  EXPECT_EQ(j.size(), 1U);
  EXPECT_TRUE(j.targets().empty());
  const node one = j.add_existing(first.socket);
  const node two = j.add_existing(second.socket, 2);
  EXPECT_EQ(sync(one, fn<&own_pid>), first.pid());
  EXPECT_EQ(sync(two, fn<&own_pid>), second.pid());
  EXPECT_EQ(sync(one, fn<&ask_number_of>, two.id()), two.id());
  EXPECT_EQ(sync(two, fn<&ask_host>, 1), ::getpid() + 1);
  EXPECT_EQ(two.description().workers, 2U);
  j.close();
  EXPECT_EQ(first.wait(), status_after_the_job);
  EXPECT_EQ(second.wait(), status_after_the_job);
}

TEST(existing_targets, that_are_added_take_the_place_of_failed_ones) {
  rank first;
  rank refused;
  rank next;
  job j(with_targets("none"));
  std::promise<node_id> replaced;
  j.on_node_change([&](const node_event& e) {
    if (e.what == node_change::joined && e.replaces != no_node) replaced.set_value(e.replaces);
  });
  const node one = j.add_existing(first.socket);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)j.add_existing(refused.socket, 1, one.id()); }),
              HasSubstr("node 1 is alive"));
  EXPECT_FALSE(is_open(refused.socket));
  EXPECT_THROW(async(one, fn<&end_at_once>).get(), node_failed);
  const node two = j.add_existing(next.socket, 1, one.id());
  EXPECT_EQ(sync(two, fn<&own_pid>), next.pid());
  EXPECT_EQ(replaced.get_future().get(), one.id());
}

TEST(existing_targets, that_die_fail_their_calls) {
  rank only;
  job_options o;
  o.existing_targets = {only.socket};
  job j(o);
  EXPECT_THROW(async(j.targets()[0], fn<&end_at_once>).get(), node_failed);
  EXPECT_EQ(only.wait(), -1);
}

TEST(existing_targets, cannot_send_terminal_codes_to_the_host) {
  auto [ours, theirs] = control_socket::make_pair();
  ASSERT_TRUE(messages::send(theirs, messages::refused{"I am \x1b[2J\x07 away"}, no_deadline));
  theirs.close();
  job_options o;
  o.existing_targets = {::fcntl(ours.fd(), F_DUPFD_CLOEXEC, 0)};
  try {
    job j(o);
    FAIL() << "it has refused";
  } catch (const start_failed& e) {
    const std::string why = e.what();
    EXPECT_THAT(why, AllOf(HasSubstr("I am "), HasSubstr(" away")));
    EXPECT_EQ(why.find_first_of("\x1b\x07"), std::string::npos) << why;
  }
}

TEST(existing_targets, are_closed_by_a_job_that_fails) {
  rank only;
  job_options o;
  o.existing_targets = {only.socket};
  o.lane_bytes = 5000;
  EXPECT_THROW(job{o}, setting_error);
  EXPECT_FALSE(is_open(only.socket));
  EXPECT_NE(only.wait(), status_after_the_job) << "its host is gone";
}

TEST(existing_targets, are_named_by_sockets_that_keep_messages_apart) {
  int stream[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
  const unique_fd other(stream[1]);
  job_options o;
  o.existing_targets = {stream[0]};
  EXPECT_THAT(text_thrown_by<start_failed>([&] { const job j(o); }),
              HasSubstr("socketpair(AF_UNIX, SOCK_SEQPACKET"));
  EXPECT_THAT(text_thrown_by<setting_error>([] { serve_as_target(-1); }),
              AllOf(HasSubstr("descriptor -1"), HasSubstr("SOCK_SEQPACKET")));
}

TEST(existing_targets, are_processes_without_a_job) {
  const job j;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const unique_fd other(ends[0]);
  EXPECT_THAT(text_thrown_by<error>([&] { serve_as_target(ends[1]); }), HasSubstr("has a job"));
}

} // namespace
} // namespace farcall::test::existing_targets_test
