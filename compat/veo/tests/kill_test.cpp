// SPDX-License-Identifier: Apache-2.0
#include "exception_support.hpp"

#include <tests/faults/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace veo_test {
namespace {

// Helpers that are killed from outside, in every state of their queues.

using ::testing::AnyOf;

class killed_helper : public ::testing::Test {
 protected:
  void SetUp() override {
    VEO_TEST_LOCAL_ONLY("the helper is killed by its number");
    process_.emplace();
    pid_ = static_cast<pid_t>(process_->call("process_id"));
    (void)process_->symbol("same");
    (void)process_->symbol("wait_at");
    context_ = process_->open();
  }

  process& proc() { return *process_; }
  veo_thr_ctxt* context() { return context_; }
  void kill() const { ASSERT_EQ(::kill(pid_, SIGKILL), 0); }
  std::uint64_t submit_same(std::uint64_t value) {
    return submit(context_, proc().symbol("same"), value);
  }

  /// Waits for the helper's end, and checks the documented behaviour of a process that has ended.
  void expect_end() {
    expect_ended(proc(), {context_, proc().main()});
    EXPECT_EQ(proc().destroy(), 0);
    EXPECT_EQ(::kill(pid_, 0), -1);
    EXPECT_EQ(errno, ESRCH);
    process next;
    EXPECT_EQ(next.call("same", std::uint64_t{1}), 1U);
  }

 private:
  std::optional<process> process_;
  pid_t pid_ = 0;
  veo_thr_ctxt* context_ = nullptr;
};

TEST_F(killed_helper, with_nothing_queued) {
  kill();
  expect_end();
}

TEST_F(killed_helper, with_nothing_ever_done) {
  const farcall::test::holdings before = farcall::test::holdings::now();
  const bounded b("a process whose helper is killed");
  veo_proc_handle* const fresh = veo_proc_create(0);
  ASSERT_NE(fresh, nullptr);
  const farcall::test::holdings with = farcall::test::holdings::now();
  for (const pid_t child : with.children) {
    if (!before.children.contains(child)) ::kill(child, SIGKILL);
  }
  EXPECT_TRUE(eventually(
      [&] { return veo_get_context_state(veo_get_context(fresh, 0)) == VEO_STATE_EXIT; }));
  EXPECT_EQ(veo_proc_destroy(fresh), 0);
}

TEST_F(killed_helper, with_a_kernel_running_and_requests_behind_it) {
  gate g(proc());
  const std::uint64_t running = submit(context(), proc().symbol("wait_at"), g.address());
  std::vector<std::uint64_t> queued;
  for (std::uint64_t i = 0; i < 1000; ++i)
    queued.push_back(submit_same(i));
  (void)g.wait_for_kernel();
  kill();
  EXPECT_EQ(collect(context(), queued.back()), error);
  EXPECT_EQ(collect(context(), running), error);
  for (std::size_t i = 0; i + 1 < queued.size(); ++i)
    ASSERT_EQ(collect(context(), queued[i]), error);
  expect_end();
}

TEST_F(killed_helper, with_a_kernel_running_that_somebody_waits_for) {
  gate g(proc());
  const std::uint64_t running = submit(context(), proc().symbol("wait_at"), g.address());
  (void)g.wait_for_kernel();
  outcome collected;
  std::thread waiter([&] { collected = collect(context(), running); });
  std::thread syncs([&] {
    const bounded b("veo_context_sync of a helper that is killed");
    veo_context_sync(context());
  });
  kill();
  waiter.join();
  syncs.join();
  EXPECT_EQ(collected, error);
  expect_end();
}

TEST_F(killed_helper, with_requests_just_submitted) {
  std::vector<std::uint64_t> requests;
  for (std::uint64_t i = 0; i < 1000; ++i)
    requests.push_back(submit_same(i));
  kill();
  // Some requests may have ended; then all earlier ones have ended, too.
  bool all_before_done = true;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const outcome o = collect(context(), requests[i]);
    if (all_before_done && o == error) all_before_done = false;
    ASSERT_EQ(o, all_before_done ? ok(i) : error) << i;
  }
  expect_end();
}

TEST_F(killed_helper, while_threads_submit) {
  std::atomic<bool> refused{false};
  std::atomic<int> submitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const bounded b("submitting until the helper is killed");
      for (std::uint64_t i = 0;; ++i) {
        const std::uint64_t request = submit_same(i);
        if (request == VEO_REQUEST_ID_INVALID) break;
        ++submitted;
        EXPECT_THAT(collect(context(), request), AnyOf(ok(i), error));
      }
      refused = true;
    });
  }
  EXPECT_TRUE(eventually([&] { return submitted > 100; }));
  kill();
  for (std::thread& t : threads)
    t.join();
  EXPECT_TRUE(refused);
  expect_end();
}

TEST_F(killed_helper, with_a_function_here_running) {
  struct meeting {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_there = false;
    bool may_go = false;
    bool went = false;
  } m;
  const auto function = [](void* argument) -> std::uint64_t {
    auto& m = *static_cast<meeting*>(argument);
    std::unique_lock lock(m.mutex);
    m.is_there = true;
    m.changed.notify_all();
    m.changed.wait_for(lock, farcall::test::wait_limit, [&] { return m.may_go; });
    m.went = true;
    return 8;
  };
  const std::uint64_t running = veo_call_async_vh(context(), function, &m);
  const std::uint64_t behind = submit_same(1);
  {
    std::unique_lock lock(m.mutex);
    ASSERT_TRUE(m.changed.wait_for(lock, farcall::test::wait_limit, [&] { return m.is_there; }));
  }
  kill();
  // The end is detected while the function is running.
  EXPECT_TRUE(eventually([&] { return veo_get_context_state(context()) == VEO_STATE_EXIT; }));
  {
    const std::lock_guard lock(m.mutex);
    m.may_go = true;
    m.changed.notify_all();
  }
  EXPECT_THAT(collect(context(), running), AnyOf(ok(8), error));
  EXPECT_EQ(collect(context(), behind), error);
  expect_end();
  // The function has returned.
  const std::lock_guard lock(m.mutex);
  EXPECT_TRUE(m.went);
}

TEST_F(killed_helper, with_results_that_nobody_has_collected) {
  std::vector<std::uint64_t> requests;
  for (std::uint64_t i = 0; i < 100; ++i)
    requests.push_back(submit_same(i));
  veo_context_sync(context());
  kill();
  EXPECT_TRUE(eventually([&] { return veo_get_context_state(context()) == VEO_STATE_EXIT; }));
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(collect(context(), requests[i]), ok(i));
  expect_end();
}

TEST_F(killed_helper, while_a_synchronous_call_waits) {
  gate g(proc(), context());
  int result = 0;
  std::thread caller([&] {
    const bounded b("veo_call_sync of a helper that is killed");
    const arguments a(g.address());
    std::uint64_t word = 0;
    result = veo_call_sync(proc().get(), proc().symbol("wait_at"), a.get(), &word);
  });
  (void)g.wait_for_kernel();
  kill();
  caller.join();
  EXPECT_LT(result, 0);
  expect_end();
}

TEST_F(killed_helper, while_blocking_copies_go_on) {
  constexpr std::size_t size = std::size_t{64} << 20;
  const std::uint64_t address = proc().allocate(size);
  std::atomic<bool> began{false};
  std::thread copies([&] {
    const bounded b("veo_write_mem to a helper that is killed");
    const std::vector<unsigned char> bytes(size, 1);
    began = true;
    while (veo_write_mem(proc().get(), address, bytes.data(), size) == 0) {
    }
  });
  EXPECT_TRUE(eventually([&] { return began.load(); }));
  kill();
  copies.join();
  expect_end();
}

TEST_F(killed_helper, while_asynchronous_copies_go_on) {
  constexpr std::size_t size = std::size_t{16} << 20;
  const std::uint64_t address = proc().allocate(size);
  std::vector<unsigned char> bytes(size, 1);
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(veo_async_write_mem(context(), address, bytes.data(), size));
    requests.push_back(veo_async_read_mem(context(), bytes.data(), address, size));
  }
  kill();
  for (const std::uint64_t r : requests)
    EXPECT_THAT(collect(context(), r), AnyOf(ok(0), error));
  expect_end();
}

TEST_F(killed_helper, and_its_context_closed) {
  gate g(proc());
  veo_thr_ctxt* const other = proc().open();
  ASSERT_NE(submit(other, proc().symbol("wait_at"), g.address()), VEO_REQUEST_ID_INVALID);
  (void)g.wait_for_kernel();
  kill();
  {
    const bounded b("veo_context_close of a helper that is killed");
    EXPECT_EQ(veo_context_close(other), 0);
  }
  expect_end();
}

TEST_F(killed_helper, and_destroyed_at_once) {
  gate g(proc());
  ASSERT_NE(submit(context(), proc().symbol("wait_at"), g.address()), VEO_REQUEST_ID_INVALID);
  kill();
  EXPECT_EQ(proc().destroy(), 0);
}

TEST_F(killed_helper, one_of_two) {
  process other;
  veo_thr_ctxt* const context_of_other = other.open();
  gate g(other);
  const std::uint64_t waiting = submit(context_of_other, other.symbol("wait_at"), g.address());
  kill();
  expect_end();
  g.open(3);
  EXPECT_EQ(collect(context_of_other, waiting), ok(3));
}

TEST_F(killed_helper, by_destroying_a_process_whose_kernel_never_ends) {
  // The kernel runs longer than veo_proc_destroy() waits.
  ASSERT_NE(submit(context(), proc().symbol("pause_for"), std::uint64_t{3600000000}),
            VEO_REQUEST_ID_INVALID);
  const auto pid = static_cast<pid_t>(proc().call("process_id"));
  EXPECT_EQ(proc().destroy(), 0);
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

} // namespace
} // namespace veo_test
