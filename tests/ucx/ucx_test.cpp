// SPDX-License-Identifier: Apache-2.0

// Jobs whose targets the host reaches over UCX, with the module that programs load.

#include <farcall/transport/transport_entry.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace farcall::test {
namespace {

using ::testing::HasSubstr;

#if defined(UCX_MODULE)

// Set before the first use of the table of transports. Targets inherit the variable.
[[maybe_unused]] const bool is_set = [] {
  // UCX hooks the functions that map memory, and crashes in a sanitizer's versions of them. This
  // transport needs no hooks.
  if (under_sanitizer) ::setenv("UCX_MEM_EVENTS", "no", 1);
  return ::setenv("FARCALL_TRANSPORT_MODULES", UCX_MODULE, 1) == 0;
}();

int twice(int v) { return 2 * v; }
long long sum(remote_span<int> v) {
  const std::span<int> here = v.local();
  return std::accumulate(here.begin(), here.end(), 0LL);
}
long long sum_of(const std::vector<int>& v) { return std::accumulate(v.begin(), v.end(), 0LL); }
std::vector<int> count_to(int n) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 1);
  return v;
}
void set_first(remote_span<int> v) { v.local().front() = 1; }
int ask_host(int v) { return sync(node_at(host_id), fn<&twice>, v) + 1; }
int ask_node(node_id n, int v) { return sync(node_at(n), fn<&twice>, v) + 1; }
void end_at_once() { std::raise(SIGKILL); }
void end_soon() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::raise(SIGKILL);
  }).detach();
}

/// Options with which threads sleep rather than spin, so that messages must wake them.
job_options sleeping(const std::string& targets) {
  job_options o;
  o.targets = targets;
  o.waiting = {.spin = {}, .yield_after = {}};
  return o;
}

/// Fixture for each transport of UCX that reaches targets on this machine.
class ucx_jobs : public ::testing::TestWithParam<const char*> {
 protected:
  // Targets inherit the variable.
  void SetUp() override { ::setenv("UCX_TLS", GetParam(), 1); }
};

TEST_P(ucx_jobs, have_targets_that_reply) {
  job j(sleeping("ucx:2"));
  ASSERT_EQ(j.size(), 3U);
  for (const node& n : j.targets()) {
    EXPECT_EQ(n.description().transport, "ucx");
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(sync(n, fn<&twice>, i), 2 * i);
  }
  EXPECT_EQ(sync(j.targets()[0], fn<&ask_node>, j.targets()[1].id(), 4), 9);
}

TEST_P(ucx_jobs, wake_threads_that_sleep) {
  job j(sleeping("ucx"));
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(sync(j.targets()[0], fn<&twice>, i), 2 * i);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the target's worker is asleep
  }
  EXPECT_EQ(sync(j.targets()[0], fn<&ask_host>, 4), 9);
}

TEST_P(ucx_jobs, carry_more_than_a_ring_takes) {
  job j(sleeping("ucx"));
  const node target = j.targets()[0];
  std::vector<future<int>> calls;
  for (int i = 0; i < 20'000; ++i)
    calls.push_back(async(target, fn<&twice>, i));
  const std::vector<int> many = count_to(1'000'000);
  const auto there = target.allocate<int>(many.size());
  put(std::span(many), there).get();
  EXPECT_EQ(sync(target, fn<&sum>, there.span()), 500'000'500'000LL);
  std::vector<int> back(many.size());
  get(there, std::span(back)).get();
  EXPECT_EQ(back, many);
  for (int i = 0; i < 20'000; ++i)
    ASSERT_EQ(calls[static_cast<std::size_t>(i)].get(), 2 * i);
}

TEST_P(ucx_jobs, pass_long_arguments_and_results) {
  job j(sleeping("ucx"));
  const std::vector<int> many = count_to(1'000'000);
  EXPECT_EQ(sync(j.targets()[0], fn<&sum_of>, many), 500'000'500'000LL);
  EXPECT_EQ(sync(j.targets()[0], fn<&count_to>, 300'000), count_to(300'000));
}

TEST_P(ucx_jobs, mix_with_others) {
  job j(sleeping("shm,ucx"));
  EXPECT_EQ(j.targets()[0].description().transport, "shm");
  EXPECT_EQ(j.targets()[1].description().transport, "ucx");
  for (const node& n : j.targets())
    EXPECT_EQ(sync(n, fn<&ask_host>, 1), 3);
  EXPECT_EQ(sync(j.targets()[0], fn<&ask_node>, j.targets()[1].id(), 4), 9);
}

TEST_P(ucx_jobs, notice_that_a_target_has_died) {
  job j(sleeping("ucx:2"));
  auto last = async(j.targets()[0], fn<&end_at_once>);
  EXPECT_THROW(last.get(), node_failed);
  EXPECT_EQ(sync(j.targets()[1], fn<&twice>, 3), 6);
}

TEST_P(ucx_jobs, end_copies_with_a_target_that_dies) {
  job j(sleeping("ucx:2"));
  const node n = j.targets()[0];
  const auto there = n.allocate<char>(std::size_t{8} << 20);
  async(n, fn<&end_soon>).get();
  EXPECT_THROW(
      {
        for (;;) {
          std::vector<char> here(std::size_t{8} << 20, 'x');
          put(here, there).get();
          get(there, here).get();
        }
      },
      node_failed);
  EXPECT_EQ(sync(j.targets()[1], fn<&twice>, 3), 6);
}

TEST_P(ucx_jobs, let_several_threads_call_at_once) {
  job j(sleeping("ucx"));
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&j, t] {
      for (int i = 0; i < 500; ++i)
        EXPECT_EQ(sync(j.targets()[0], fn<&twice>, t * 1000 + i), 2 * (t * 1000 + i));
    });
  }
  for (std::thread& t : all)
    t.join();
}

TEST_P(ucx_jobs, end_copies_at_deadlines_without_harm_to_later_ones) {
  job j(sleeping("ucx"));
  const node target = j.targets()[0];
  const auto there = target.allocate<int>(500'000);
  const std::vector<int> ones(500'000, 1);
  std::vector<int> back(500'000);
  stopped_target stopped(target);
  const std::chrono::milliseconds soon(20);
  EXPECT_THROW(put(std::span(ones), there.within(soon)).get(), timeout);
  EXPECT_THROW(get(there.within(soon), std::span(back)).get(), timeout);
  stopped.resume();
  const std::vector<int> twos(500'000, 2);
  put(std::span(twos), there).get();
  EXPECT_EQ(sync(target, fn<&sum>, there.span()), 1'000'000);
}

// A put to a stopped target has ended at its deadline, and later copies wait until UCX has
// delivered it. A long reply is read by such a copy, with the guard of its lane held.
TEST_P(ucx_jobs, end_copies_behind_a_late_put_with_the_target) {
  job j(sleeping("ucx:2"));
  const node target = j.targets()[0];
  const auto there = target.allocate<int>(500'000);
  const lane stream(target);
  future<std::vector<int>> reply = async(stream, fn<&count_to>, 300'000);
  post(stream, fn<&set_first>, there.span());
  std::vector<int> back(500'000);
  ASSERT_TRUE(eventually([&] {
    get(there, std::span(back)).get();
    return back.front() == 1;
  })) << "the reply was sent before";
  stopped_target stopped(target);
  EXPECT_THROW(put(std::span(back), there.within(std::chrono::milliseconds(20))).get(), timeout);
  kill_target(target);
  EXPECT_THROW((void)reply.get(), node_failed);
  EXPECT_EQ(sync(j.targets()[1], fn<&twice>, 3), 6);
}

INSTANTIATE_TEST_SUITE_P(over_tcp, ucx_jobs, ::testing::Values("tcp"));
INSTANTIATE_TEST_SUITE_P(over_shared_memory, ucx_jobs, ::testing::Values("posix,cma"));

TEST(ucx, says_what_it_has_here) {
  const transport_entry* const row = find_transport(transports(), "ucx");
  ASSERT_NE(row, nullptr);
  ::setenv("UCX_TLS", "tcp", 1);
  const auto there = row->available();
  ASSERT_EQ(there.size(), 1U);
  EXPECT_TRUE(there[0].present) << there[0].text;
  EXPECT_THAT(there[0].text, HasSubstr("tcp/"));
}

TEST(ucx, says_why_it_cannot_be_used) {
  const transport_entry* const row = find_transport(transports(), "ucx");
  ASSERT_NE(row, nullptr);
  ::setenv("UCX_TLS", "no_such_thing", 1);
  const auto there = row->available();
  ::unsetenv("UCX_TLS");
  ASSERT_EQ(there.size(), 1U);
  EXPECT_FALSE(there[0].present);
  EXPECT_THAT(there[0].text, HasSubstr("UCX_TLS=no_such_thing"));
}

#else

TEST(ucx, carries_jobs) {
  GTEST_SKIP() << "built without UCX: its headers (libucx-dev) are not here";
}

#endif

} // namespace
} // namespace farcall::test
