// SPDX-License-Identifier: Apache-2.0

// Deadlines of operations other than calls: memory, copies, coroutines, destructors. A stopped
// target represents all targets that do not reply.

#include <farcall/async/call.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_state.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace farcall::test::deadline_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// For waits that are to end by it.
constexpr milliseconds soon{30};
/// More than the time of all operations that end by themselves; a wait that does not takes longer.
constexpr std::chrono::seconds late{10};

std::uint64_t bytes_in_use() { return detail::current_job().engine->heap().bytes_in_use(); }

// ---- memory -------------------------------------------------------------------------------------

class memory_with_deadlines : public job_test {};

TEST_F(memory_with_deadlines, is_allocated_in_time) {
  const buffer<int> b = target_.within(wait_limit).allocate<int>(100);
  EXPECT_EQ(b.size(), 100U);
  EXPECT_EQ(b.node(), target_);
  EXPECT_EQ(job_.host().within(wait_limit).allocate<int>(7).size(), 7U);
}

TEST_F(memory_with_deadlines, allocated_too_late_is_freed) {
  const std::uint64_t before = sync(target_, bytes_in_use);
  {
    const stopped_target stopped(target_);
    const auto e = thrown_by<timeout>(
        [&] { (void)target_.within(soon).allocate<char>(std::size_t{1} << 20); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->node(), target_.id());
  }
  // The first of these calls comes after the allocation.
  EXPECT_TRUE(eventually([&] { return sync(target_, bytes_in_use) == before; }));
}

TEST_F(memory_with_deadlines, allocated_after_the_job_is_dropped) {
  const stopped_target stopped(target_);
  EXPECT_THROW((void)target_.within(soon).allocate<char>(100), timeout);
  // The job ends while the target is stopped.
}

TEST(ends_of_buffers, wait_for_a_full_lane_for_a_while) {
  job_options options = with_targets("shm");
  options.release_timeout = soon;
  const job j(options);
  const node target = j.targets()[0];
  auto b = target.allocate<char>(std::size_t{1} << 20);
  const std::uint64_t before = sync(target, bytes_in_use);
  stopped_target stopped(target);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(ends(
      [&] {
        // No longer than the message that frees, so that neither finds space.
        EXPECT_THROW(for (;;) { post(target.within(soon), [] {}); }, timeout);
        b.reset();
      },
      [&] { stopped.resume(); }));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("release_timeout"));
  EXPECT_TRUE(b.empty());
  stopped.resume();
  EXPECT_EQ(sync(target, bytes_in_use), before) << "it stays taken, as was logged";
}

TEST(ends_of_buffers, take_a_deadline_and_then_leave_the_memory) {
  const job j(with_targets("shm"));
  const node target = j.targets()[0];
  auto b = target.allocate<char>(std::size_t{1} << 20);
  const std::uint64_t before = sync(target, bytes_in_use);
  stopped_target stopped(target);
  EXPECT_TRUE(ends(
      [&] {
        EXPECT_THROW(for (;;) { post(target.within(soon), [] {}); }, timeout);
        EXPECT_THROW(b.within(soon).reset(), timeout);
      },
      [&] { stopped.resume(); }));
  EXPECT_FALSE(b.empty());
  stopped.resume();
  b.within(wait_limit).reset();
  EXPECT_TRUE(b.empty());
  b.within(wait_limit).reset();
  EXPECT_LT(sync(target, bytes_in_use), before);
}

// ---- copies -------------------------------------------------------------------------------------

constexpr std::size_t large = async_copy_from + 4096;

class copies_with_deadlines : public job_test {};

TEST_F(copies_with_deadlines, are_done_in_time) {
  const auto b = target_.allocate<int>(large / sizeof(int));
  auto c = target_.allocate<int>(large / sizeof(int));
  std::vector<int> values(b.size());
  std::iota(values.begin(), values.end(), 3);
  put(values, b.within(wait_limit)).get();
  std::vector<int> back(b.size());
  get(b.within(wait_limit), back).get();
  EXPECT_EQ(back, values);
  copy(b, c.within(wait_limit)).get();
  std::fill(back.begin(), back.end(), 0);
  get_sync(c.span().within(wait_limit), back);
  EXPECT_EQ(back, values);
  put_sync(std::vector{1, 2, 3}, c.within(wait_limit));
  get_sync(c.within(wait_limit), std::span(back).first(4));
  EXPECT_EQ(back[2], 3);
  EXPECT_EQ(back[3], 6);
}

TEST_F(copies_with_deadlines, into_shared_memory_need_no_reply) {
  auto b = target_.allocate<int>(1000);
  const stopped_target stopped(target_);
  put_sync(std::vector<int>(1000, 7), b.within(soon));
  std::vector<int> back(1000);
  get_sync(b.within(soon), back);
  EXPECT_EQ(back[999], 7);
}

TEST_F(copies_with_deadlines, that_are_late_end_with_timeout) {
  auto b = target_.allocate<char>(large);
  std::vector<char> local(large, 'x');
  const std::chrono::nanoseconds no_time(-1);
  EXPECT_THROW(put_sync(local, b.within(no_time)), timeout);
  EXPECT_THROW(get_sync(b.within(no_time), local), timeout);
  future<void> f = put(local, b.within(no_time));
  const auto e = thrown_by<timeout>([&] { f.get(); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_THAT(e->what(), HasSubstr(std::to_string(large) + " bytes to node 1"));
  EXPECT_THROW(get(b.within(no_time), local).get(), timeout);
}

TEST_F(copies_with_deadlines, end_without_a_thread_that_waits) {
  auto b = target_.allocate<char>(large);
  std::vector<char> local(large, 'x');
  std::atomic<bool> is_late{false};
  // Not waited for, and queued behind much work of the copy thread.
  std::vector<future<void>> before;
  for (int i = 0; i < 8; ++i)
    before.push_back(put(local, b));
  const future<void> f =
      put(local, b.within(std::chrono::nanoseconds(-1))).then([&](future<void> ended) {
        EXPECT_THROW(ended.get(), timeout);
        is_late = true;
      });
  EXPECT_TRUE(eventually([&] { return is_late.load(); }));
  for (future<void>& each : before)
    each.get();
}

class copies_between_targets_with_deadlines : public two_targets_test {};

TEST_F(copies_between_targets_with_deadlines, time_out_when_the_destination_is_stopped) {
  const auto from = target_.allocate<int>(1000);
  auto to = other_.allocate<int>(1000);
  put_sync(std::vector<int>(1000, 4), from);
  {
    const stopped_target stopped(other_);
    EXPECT_THROW(copy_sync(from, to.within(soon)), timeout);
    EXPECT_THROW(copy_sync(from.within(soon), to), timeout);
    EXPECT_THROW(copy(from.within(wait_limit), to.within(soon)).get(), timeout);
  }
  copy_sync(from, to);
}

// ---- while others are served --------------------------------------------------------------------

/// A handler of the host that runs until the test ends it.
std::atomic<bool> is_busy{false};
std::atomic<bool> may_end{false};

void keep_the_host_busy() {
  is_busy = true;
  (void)eventually([] { return may_end.load(); });
  is_busy = false;
}

class deadlines_beside_handlers : public job_test {
 protected:
  deadlines_beside_handlers() { may_end = false; }
  ~deadlines_beside_handlers() override {
    may_end = true;
    EXPECT_TRUE(eventually([] { return !is_busy; }));
  }
};

TEST_F(deadlines_beside_handlers, are_kept_by_threads_of_the_program) {
  future<void> served = async(target_, [] { sync(host(), fn<&keep_the_host_busy>); });
  ASSERT_TRUE(eventually([&] { return !served.test() && is_busy; }));
  const time_point begin = clock::now();
  EXPECT_FALSE(served.wait_for(soon));
  EXPECT_THROW(served.within(soon).get(), timeout);
  EXPECT_THROW((void)sync(target_.within(soon), [] { sync(host(), [] {}); }), timeout);
  EXPECT_LT(clock::now() - begin, late);
  EXPECT_TRUE(is_busy) << "the handler that is served runs on";
}

TEST_F(deadlines_beside_handlers, are_kept_in_a_lane_beside_computing_workers) {
  handshake words(target_);
  const auto computes = [](handshake::words w) {
    handshake::set(w.local(), 0, 1);
    (void)handshake::wait(w.local(), 1, 1);
  };
  const auto waits = [] {
    try {
      sync(host().within(soon), fn<&keep_the_host_busy>);
    } catch (const timeout&) {
      return true;
    }
    return false;
  };
  future<void> busy = async(target_, computes, words.span());
  ASSERT_TRUE(words.wait(0));
  const lane own(target_);
  EXPECT_TRUE(async(own, waits).get());
  EXPECT_FALSE(busy.test());
  words.set(1);
  busy.get();
}

/// Waits with a deadline for a call that does not end.
bool times_out(handshake::words w) {
  future<void> never = async(host(), fn<&keep_the_host_busy>);
  handshake::add(w.local(), 0);
  return !never.wait_for(soon);
}

TEST_F(deadlines_beside_handlers, all_pass_for_many_handlers_of_a_worker) {
  constexpr std::uint32_t many = 100;
  const handshake words(target_);
  std::vector<future<bool>> all;
  for (std::uint32_t i = 0; i < many; ++i)
    all.push_back(async(target_, fn<&times_out>, words.span()));
  for (future<bool>& f : all)
    EXPECT_TRUE(f.within(wait_limit).get());
}

} // namespace
} // namespace farcall::test::deadline_test
