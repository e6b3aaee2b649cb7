// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/support.hpp"

#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace farcall::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Bound that the design promises for targets whose host has died.
constexpr milliseconds promised{1000};

std::string pids_of(const job& j) {
  std::string text;
  for (const node& n : j.targets())
    text += std::to_string(sync(n, ::getpid)) + " ";
  return text;
}

[[noreturn]] void busy_for_ever() {
  volatile unsigned turns = 0;
  for (;;)
    turns = turns + 1;
}

/// Has targets in every state: idle; in a handler that never ends; waiting for another target that
/// never replies; waiting for the host; and busy on a lane with its own worker.
[[noreturn]] void be_a_host(void (*end)()) {
  auto j = std::make_unique<job>(with_targets("shm:4,shm?workers=3"));
  const std::vector<node>& t = j->targets();
  say(pids_of(*j));
  post(t[1], [] { busy_for_ever(); });
  post(t[2], [](const node& busy) { sync(busy, [] {}); }, t[1]);
  const lane stream(t[3]);
  post(stream, [] { busy_for_ever(); });
  post(t[4], [] { sync(host(), [] { std::this_thread::sleep_for(std::chrono::hours(1)); }); });
  std::this_thread::sleep_for(milliseconds(20));
  say("ready");
  end();
  for (;;)
    std::this_thread::sleep_for(seconds(1));
}

int host_until_killed() {
  be_a_host([] {});
}
int host_that_exits() {
  be_a_host([] { std::exit(0); });
}
int host_that_leaves() {
  be_a_host([] { ::_exit(0); });
}
int host_that_aborts() {
  be_a_host([] { std::abort(); });
}

/// Begins to end its job, and waits for a target whose handler never ends.
int host_that_ends_its_job() {
  job_options options = with_targets("shm:4,shm?workers=3");
  options.stop_timeout = seconds(100);
  auto j = std::make_unique<job>(options);
  say(pids_of(*j));
  auto stream = std::make_unique<lane>(j->targets()[0]);
  post(*stream, [] { busy_for_ever(); });
  std::this_thread::sleep_for(milliseconds(20));
  say("ready");
  j.reset();
  return 0;
}

/// An uncaught exception of the job calls std::terminate(), so that no destructor runs.
int host_that_does_not_catch() {
  job_options options = with_targets("shm:2");
  options.program = "/bin/sleep";
  options.arguments = {"sleep", "100"};
  options.start_timeout = milliseconds(300);
  const auto make = [&]() noexcept { const job j(options); };
  make();
  return 0;
}

/// Has a child that inherits all its descriptors.
int host_that_has_forked() {
  be_a_host([] {
    if (::fork() == 0) std::this_thread::sleep_for(seconds(100));
  });
}

const role forked_role("host that has forked", &host_that_has_forked);
const role ends_job_role("host that ends its job", &host_that_ends_its_job);
const role does_not_catch_role("host that does not catch", &host_that_does_not_catch);
const role killed_role("host until killed", &host_until_killed);
const role exits_role("host that exits", &host_that_exits);
const role leaves_role("host that leaves", &host_that_leaves);
const role aborts_role("host that aborts", &host_that_aborts);

class host_end : public ::testing::Test {
 protected:
  const subreaper orphans_come_here_;

  void expect_targets_gone_with(const char* role);

  void expect_targets_gone(const std::vector<pid_t>& pids) {
    ASSERT_EQ(pids.size(), 5U);
    const bool gone = all_end_within(pids, promised);
    EXPECT_TRUE(gone) << "targets outlive their host";
    if (!gone) {
      for (const pid_t pid : pids)
        ::kill(pid, SIGKILL);
    }
  }
};

/// Kills a host in that role a moment after it is ready.
void host_end::expect_targets_gone_with(const char* role) {
  role_process host(role);
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(host.line(), "ready");
  std::this_thread::sleep_for(milliseconds(50));
  host.kill(SIGKILL);
  EXPECT_EQ(host.wait(), -SIGKILL);
  expect_targets_gone(pids);
}

TEST_F(host_end, killed) {
  for (int i = 0; i < 5; ++i) {
    role_process host("host until killed");
    const std::vector<pid_t> pids = pids_in(host.line());
    ASSERT_EQ(host.line(), "ready");
    for (const pid_t pid : pids)
      ASSERT_FALSE(has_ended(pid));
    host.kill(SIGKILL);
    ASSERT_EQ(host.wait(), -SIGKILL);
    expect_targets_gone(pids);
  }
}

TEST_F(host_end, exits_without_ending_its_job) {
  role_process host("host that exits");
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(host.line(), "ready");
  EXPECT_EQ(host.wait(), 0);
  expect_targets_gone(pids);
}

TEST_F(host_end, leaves_at_once) {
  role_process host("host that leaves");
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(host.line(), "ready");
  EXPECT_EQ(host.wait(), 0);
  expect_targets_gone(pids);
}

TEST_F(host_end, aborts) {
  role_process host("host that aborts");
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(host.line(), "ready");
  EXPECT_EQ(host.wait(), -SIGABRT);
  expect_targets_gone(pids);
}

TEST_F(host_end, killed_while_its_child_lives) {
  expect_targets_gone_with("host that has forked");
  for (const pid_t child : holdings::now().children) // reparented to this process
    ::kill(child, SIGKILL);
}

TEST_F(host_end, killed_while_it_waits_for_its_targets_to_finish) {
  expect_targets_gone_with("host that ends its job");
}

TEST_F(host_end, by_an_uncaught_exception_of_the_job) {
  role_process host("host that does not catch");
  EXPECT_EQ(host.wait(), -SIGABRT);
  for (const pid_t pid : holdings::now().children) {
    EXPECT_TRUE(all_end_within({pid}, promised)) << "the target's program outlives its host";
  }
}

TEST_F(host_end, killed_while_it_starts_targets) {
  for (int i = 0; i < 10; ++i) {
    role_process host("host until killed");
    std::this_thread::sleep_for(milliseconds(3 * i));
    host.kill(SIGKILL);
    EXPECT_EQ(host.wait(), -SIGKILL);
    const auto end = std::chrono::steady_clock::now() + promised;
    std::vector<pid_t> left;
    do {
      left.clear();
      for (const pid_t pid : holdings::now().children) {
        if (!has_ended(pid)) left.push_back(pid);
      }
    } while (!left.empty() && std::chrono::steady_clock::now() < end);
    EXPECT_TRUE(left.empty()) << "a target outlives its host";
    for (const pid_t pid : left)
      ::kill(pid, SIGKILL);
  }
}

TEST(host_threads, that_made_a_job_may_end) {
  std::unique_ptr<job> j;
  std::thread([&] { j = std::make_unique<job>(with_targets("shm:2")); }).join();
  // If the targets were tied to the thread instead of the process, they would end now.
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    for (const node& n : j->targets()) {
      ASSERT_TRUE(n.alive());
      ASSERT_EQ(sync(n, [] { return 4; }), 4);
    }
  }
}

TEST(host_threads, may_end_a_job_that_another_made) {
  {
    const job first(with_targets("shm"));
  }
  const holdings before = holdings::now();
  auto j = std::make_unique<job>(with_targets("shm:2"));
  EXPECT_EQ(sync(j->targets()[0], [] { return 4; }), 4);
  std::thread([&] { j.reset(); }).join();
  EXPECT_TRUE(nothing_left_since(before));
}

TEST(job_ends, leave_nothing_behind) {
  {
    const job first(with_targets("shm"));
  }
  const holdings before = holdings::now();
  for (int i = 0; i < 20; ++i) {
    const job j(with_targets("shm:3"));
    const auto memory = j.targets()[0].allocate<char>(8U << 20);
    const std::vector<char> sent(8U << 20);
    put(sent, memory).get();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const lane stream(j.targets()[1]);
        for (int k = 0; k < 20; ++k)
          (void)sync(stream, [] { return std::string(100'000, 'x'); });
      });
    }
    for (auto& t : threads)
      t.join();
  }
  EXPECT_TRUE(nothing_left_since(before));
}

} // namespace
} // namespace farcall::test
