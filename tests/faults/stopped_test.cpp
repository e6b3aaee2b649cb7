// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/support.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

/// Tests targets that exist and do not run.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

job_options asking_job(milliseconds peer_timeout) {
  job_options o = with_targets("shm:2");
  o.peer_timeout = peer_timeout;
  return o;
}

TEST(stopped, targets_fail_if_the_program_asks_for_it) {
  const holdings before = holdings::now();
  {
    const job j(asking_job(milliseconds(200)));
    const node victim = j.targets()[0];
    const node other = j.targets()[1];
    // A call for the number would fail on a busy machine, where the target may be silent for as
    // long.
    const int pid = static_cast<int>(victim.description().pid);
    EXPECT_THAT(text_thrown_by<node_failed>([&] { sync(victim, [] { std::raise(SIGSTOP); }); }),
                AllOf(HasSubstr("node 1"), HasSubstr("did not reply for 200 ms (peer_timeout)")));
    EXPECT_THROW((void)victim.allocate<int>(1), node_failed);
    EXPECT_TRUE(all_end_within({pid}, std::chrono::seconds(1)));
    EXPECT_EQ(sync(other, [] { return 2; }), 2);
  }
  EXPECT_TRUE(nothing_left_since(before));
}

TEST(stopped, targets_differ_from_computing_and_sleeping_ones) {
  const job j(asking_job(milliseconds(800)));
  future<int> computes = async(j.targets()[0], [] {
    const time_point end = clock::now() + milliseconds(1500);
    while (clock::now() < end) {
    }
    return 1;
  });
  EXPECT_EQ(computes.get(), 1);
  std::this_thread::sleep_for(milliseconds(1500));
  for (const node& n : j.targets())
    EXPECT_EQ(sync(n, [] { return 2; }), 2);
}

/// Sends an invalid message on each socket that keeps message boundaries.
void send_nonsense() {
  for (int fd = 3; fd < 100; ++fd) {
    int type = 0;
    socklen_t bytes = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET)
      (void)::send(fd, "x", 1, MSG_NOSIGNAL);
  }
}

TEST(stopped, targets_with_unreadable_heartbeats_have_failed) {
  const job j(asking_job(milliseconds(5000)));
  const node victim = j.targets()[0];
  const int pid = sync(victim, ::getpid);
  post(victim, send_nonsense);
  const time_point start = clock::now();
  EXPECT_THAT(text_thrown_by<node_failed>([&] {
                while (clock::now() - start < wait_limit)
                  sync(victim.within(wait_limit), [] {});
              }),
              HasSubstr("cannot be read"));
  EXPECT_TRUE(all_end_within({pid}, std::chrono::seconds(1)));
  EXPECT_EQ(sync(j.targets()[1], [] { return 2; }), 2);
}

TEST(stopped, targets_are_met_within_the_start_timeout) {
  job_options o = with_targets("shm:2");
  o.start_timeout = std::chrono::seconds(4);
  const job j(o);
  const node victim = j.targets()[0];
  const stopped_target stopped(victim);
  EXPECT_THAT(text_thrown_by<remote_error>(
                  [&] { sync(j.targets()[1], [](node other) { sync(other, [] {}); }, victim); }),
              HasSubstr("within 4000 ms (start_timeout)"));
}

TEST(stopped, targets_may_go_on_in_time) {
  const job j(asking_job(std::chrono::seconds(20)));
  {
    const stopped_target stopped(j.targets()[0]);
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(sync(j.targets()[0], [] { return 2; }), 2);
}

} // namespace
} // namespace farcall::test
