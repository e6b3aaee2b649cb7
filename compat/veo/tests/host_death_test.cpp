// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <tests/faults/support.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace veo_test {
namespace {

using farcall::test::all_end_within;
using farcall::test::has_ended;
using farcall::test::pids_in;
using farcall::test::role;
using farcall::test::role_process;
using farcall::test::say;
using farcall::test::subreaper;

/// Time after which helpers have ended if their program dies.
constexpr std::chrono::milliseconds promised{1000};

/// Starts helpers in all states, then calls `end`: idle, in a kernel that does not end, with a
/// queue behind such a kernel, and with a host function that does not return.
[[noreturn]] void be_a_host(void (*end)()) {
  process processes[4];
  std::ostringstream pids;
  for (process& p : processes)
    pids << p.call("process_id") << ' ';
  say(pids.str());
  constexpr std::uint64_t long_time = 3600000000;
  (void)submit(processes[1].main(), processes[1].symbol("pause_for"), long_time);
  veo_thr_ctxt* const context = processes[2].open();
  (void)submit(context, processes[2].symbol("pause_for"), long_time);
  for (int i = 0; i < 1000; ++i)
    (void)submit(context, processes[2].symbol("count"));
  (void)veo_call_async_vh(
      processes[3].open(),
      [](void*) -> std::uint64_t {
        for (;;)
          std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      nullptr);
  say("ready");
  end();
  for (;;)
    std::this_thread::sleep_for(std::chrono::seconds(1));
}

int host_until_killed() {
  be_a_host([] {});
}
int host_that_leaves() {
  be_a_host([] { ::_exit(0); });
}
int host_that_aborts() {
  be_a_host([] { std::abort(); });
}

/// Program that ends by exit() without destroying its process.
int host_that_forgets() {
  veo_proc_handle* const proc = veo_proc_create(0);
  if (proc == nullptr) return 1;
  const std::uint64_t library = veo_load_library(proc, library_file("basic").c_str());
  const arguments none;
  std::uint64_t pid = 0;
  if (veo_call_sync(proc, veo_get_sym(proc, library, "process_id"), none.get(), &pid) != 0)
    return 2;
  say(std::to_string(pid));
  return 7;
}

const role killed_role("veo host until killed", &host_until_killed);
const role leaves_role("veo host that leaves", &host_that_leaves);
const role aborts_role("veo host that aborts", &host_that_aborts);
const role forgets_role("veo host that forgets", &host_that_forgets);

class host_death : public ::testing::Test {
 protected:
  const subreaper orphans_come_here_;
  void SetUp() override { VEO_TEST_LOCAL_ONLY("helpers are looked for by their numbers"); }

  static void expect_gone(const std::vector<pid_t>& pids) {
    const bool gone = all_end_within(pids, promised);
    EXPECT_TRUE(gone) << "helpers outlive their program";
    if (gone) return;
    for (const pid_t pid : pids)
      ::kill(pid, SIGKILL);
  }
};

TEST_F(host_death, killed) {
  for (int i = 0; i < 3; ++i) {
    role_process host("veo host until killed");
    const std::vector<pid_t> pids = pids_in(host.line());
    ASSERT_EQ(pids.size(), 4U);
    ASSERT_EQ(host.line(), "ready");
    for (const pid_t pid : pids)
      ASSERT_FALSE(has_ended(pid));
    host.kill(SIGKILL);
    ASSERT_EQ(host.wait(), -SIGKILL);
    expect_gone(pids);
  }
}

TEST_F(host_death, left_at_once) {
  role_process host("veo host that leaves");
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(pids.size(), 4U);
  ASSERT_EQ(host.line(), "ready");
  EXPECT_EQ(host.wait(), 0);
  expect_gone(pids);
}

TEST_F(host_death, aborted) {
  role_process host("veo host that aborts");
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(pids.size(), 4U);
  ASSERT_EQ(host.line(), "ready");
  EXPECT_EQ(host.wait(), -SIGABRT);
  expect_gone(pids);
}

TEST_F(host_death, ended_without_destroying) {
  role_process host("veo host that forgets");
  const std::vector<pid_t> pids = pids_in(host.line());
  ASSERT_EQ(pids.size(), 1U);
  // The program ends with its own exit status, without a crash.
  EXPECT_EQ(host.wait(), 7);
  expect_gone(pids);
}

TEST_F(host_death, is_not_the_end_of_the_creating_thread) {
  veo_proc_handle* proc = nullptr;
  std::uint64_t library = 0;
  std::thread([&] {
    const bounded b("veo_proc_create");
    proc = veo_proc_create(0);
    library = veo_load_library(proc, library_file("basic").c_str());
  }).join();
  ASSERT_NE(proc, nullptr);
  ASSERT_NE(library, 0U);
  // Watch for longer than helpers take to detect the end of a program.
  const auto end = std::chrono::steady_clock::now() + promised + promised / 2;
  const arguments none;
  std::uint64_t pid = 0;
  const std::uint64_t process_id = veo_get_sym(proc, library, "process_id");
  const bounded b("veo_call_sync");
  do {
    ASSERT_EQ(veo_call_sync(proc, process_id, none.get(), &pid), 0);
    ASSERT_FALSE(has_ended(static_cast<pid_t>(pid)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < end);
  EXPECT_EQ(veo_proc_destroy(proc), 0);
}

} // namespace
} // namespace veo_test
