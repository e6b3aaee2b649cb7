// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/support.hpp"

#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace farcall::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Tests handlers that end their process, in each possible way.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class ending : public ::testing::Test {
 protected:
  ending() {
    {
      const job first(with_targets("shm"));
    }
    before_ = holdings::now();
    job_.emplace(with_targets("shm:3"));
    // NOLINTBEGIN(cppcoreguidelines-prefer-member-initializer): after the first job
    victim_ = job_->targets()[0];
    other_ = job_->targets()[1];
    // NOLINTEND(cppcoreguidelines-prefer-member-initializer)
    for (const node& n : job_->targets())
      pids_.push_back(sync(n, ::getpid));
  }
  ~ending() override {
    job_.reset();
    EXPECT_TRUE(nothing_left_since(before_));
    EXPECT_TRUE(all_end_within(pids_, std::chrono::seconds(1)));
  }

  /// Calls `f`, which must not return; returns the text of the future's error.
  template <class F>
  std::string end_of(F f) {
    future<void> ended = async(victim_, f);
    const auto e = thrown_by<node_failed>([&] { ended.get(); });
    if (!e) return "";
    EXPECT_EQ(e->node(), victim_.id());
    EXPECT_THAT(e->what(), HasSubstr("node 1"));
    EXPECT_THAT(e->what(), HasSubstr(std::to_string(pids_[0])));
    expect_failed();
    return e->what();
  }

  void expect_failed() {
    EXPECT_FALSE(victim_.alive());
    EXPECT_THROW(sync(victim_, [] {}), node_failed);
    EXPECT_THROW(post(victim_, [] {}), node_failed);
    EXPECT_THROW(async(victim_, [] {}).get(), node_failed);
    EXPECT_THROW((void)victim_.allocate<int>(1), node_failed);
    EXPECT_THROW(lane{victim_}, node_failed);
    std::thread([&] { EXPECT_THROW(sync(victim_, [] {}), node_failed); }).join();
    // The other targets continue, and know of the failure.
    EXPECT_TRUE(other_.alive());
    EXPECT_EQ(sync(other_, [] { return 5; }), 5);
    EXPECT_EQ(
        sync(
            other_, [](const node& n) { return sync(n, [] { return 6; }); }, job_->targets()[2]),
        6);
    const auto e = thrown_by<remote_error>(
        [&] { sync(other_, [](const node& n) { sync(n, [] {}); }, victim_); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->type_name(), "farcall::node_failed");
  }

  holdings before_;
  std::optional<job> job_;
  node victim_;
  node other_;
  std::vector<pid_t> pids_;
};

/// Disables core files of targets that crash on purpose.
void crash_quietly() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

TEST_F(ending, exit) {
  EXPECT_THAT(end_of([] { std::exit(3); }), HasSubstr("exited with status 3"));
}

TEST_F(ending, exit_with_zero) {
  EXPECT_THAT(end_of([] { std::exit(0); }), HasSubstr("exited with status 0"));
}

TEST_F(ending, underscore_exit) {
  EXPECT_THAT(end_of([] { ::_exit(4); }), HasSubstr("exited with status 4"));
}

TEST_F(ending, quick_exit) {
  EXPECT_THAT(end_of([] { std::quick_exit(5); }), HasSubstr("exited with status 5"));
}

TEST_F(ending, abort) {
  EXPECT_THAT(end_of([] {
                crash_quietly();
                std::abort();
              }),
              AnyOf(HasSubstr("SIGABRT"), HasSubstr("exited with status")));
}

TEST_F(ending, exception_out_of_a_noexcept_function) {
  EXPECT_THAT(end_of([]() noexcept {
                crash_quietly();
                std::vector<int>().at(1) = 0;
              }),
              AnyOf(HasSubstr("SIGABRT"), HasSubstr("exited with status")));
}

TEST_F(ending, segmentation_fault) {
  // A sanitizer reports the fault and exits.
  EXPECT_THAT(end_of([] {
                crash_quietly();
                ::raise(SIGSEGV);
              }),
              AnyOf(HasSubstr("SIGSEGV"), HasSubstr("exited with status")));
}

TEST_F(ending, kill_signal) {
  EXPECT_THAT(end_of([] { ::raise(SIGKILL); }), HasSubstr("SIGKILL"));
}

TEST_F(ending, stack_overflow) {
  EXPECT_THAT(end_of([] {
                crash_quietly();
                std::function<int(int)> deeper;
                deeper = [&deeper](int v) {
                  volatile char large[4096] = {};
                  large[v % 4096] = 1;
                  return deeper(v + 1) + large[0];
                };
                if (deeper(0) == 1) std::abort();
              }),
              AnyOf(HasSubstr("SIGSEGV"), HasSubstr("exited with status")));
}

TEST_F(ending, exit_in_a_call_of_a_lane) {
  const lane stream(victim_);
  future<void> f = async(stream, [] { ::_exit(7); });
  EXPECT_THROW(f.get(), node_failed);
  EXPECT_THROW(sync(stream, [] {}), node_failed);
  expect_failed();
}

TEST_F(ending, exit_in_a_posted_call) {
  post(victim_, [] { std::exit(1); });
  const auto end = std::chrono::steady_clock::now() + wait_limit;
  while (victim_.alive() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  expect_failed();
}

TEST_F(ending, with_many_pending_calls) {
  std::vector<future<std::string>> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back(async(
        victim_,
        [](int v) {
          if (v == 100) ::_exit(1);
          return std::string(static_cast<std::size_t>(v), 'v');
        },
        i));
  }
  int values = 0;
  int failures = 0;
  for (auto& f : all) {
    try {
      EXPECT_EQ(f.get().size(), static_cast<std::size_t>(values));
      ++values;
    } catch (const node_failed&) {
      ++failures;
    }
  }
  // Replies sent before the end count. Each call has either a value or a failure.
  EXPECT_LE(values, 100);
  EXPECT_EQ(values + failures, 200);
}

TEST_F(ending, futures_of_every_kind_end) {
  future<int> chained = async(victim_, [] {
                          std::this_thread::sleep_for(std::chrono::milliseconds(50));
                          ::_exit(1);
                          return 1;
                        }).then([](future<int> f) { return f.get() + 1; });
  future<int> flattened = async(other_, [] { return 1; }).then([this](future<int>) {
    return async(victim_, [] { return 2; });
  });
  auto all = when_all(async(victim_, [] { return 1; }), async(other_, [] { return 2; }));
  std::vector<future<int>> two;
  two.push_back(async(victim_, [] { return 1; }));
  two.push_back(async(victim_, [] { return 2; }));
  auto any = when_any(std::move(two));
  future<int> waited = async(victim_, [] { return 1; });

  EXPECT_THROW((void)chained.get(), node_failed);
  EXPECT_THROW((void)flattened.get(), node_failed);
  auto [bad, good] = all.get();
  EXPECT_THROW((void)bad.get(), node_failed);
  EXPECT_EQ(good.get(), 2);
  auto first = any.get();
  EXPECT_THROW((void)first.futures[first.index].get(), node_failed);
  EXPECT_TRUE(waited.wait_for(std::chrono::seconds(10)));
  EXPECT_THROW((void)waited.get(), node_failed);
}

TEST_F(ending, futures_waited_for_by_other_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  std::vector<future<void>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(
        async(victim_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }));
  }
  for (auto& f : all) {
    threads.emplace_back([&] {
      try {
        f.get();
      } catch (const node_failed&) {
        ++failed;
      }
    });
  }
  ::kill(pids_[0], SIGKILL);
  for (auto& t : threads)
    t.join();
  EXPECT_GE(failed, 7);
}

TEST_F(ending, continuations_may_wait_for_other_ending_nodes) {
  const node last = job_->targets()[2];
  const auto wait_for_ever = [] { ::pause(); };
  std::atomic<bool> calls_the_next{false};
  // Only the end of the test waits for this call.
  future<int> f = async(victim_, wait_for_ever).then([&](future<void> first) {
    EXPECT_THROW(first.get(), node_failed);
    future<void> next = async(other_, [] { ::pause(); });
    calls_the_next = true;
    EXPECT_THROW(next.get(), node_failed);
    return sync(last, [] { return 7; });
  });
  ::kill(pids_[0], SIGKILL);
  while (!calls_the_next)
    std::this_thread::yield();
  EXPECT_FALSE(victim_.alive());
  ::kill(pids_[1], SIGKILL);
  ASSERT_TRUE(f.wait_for(std::chrono::seconds(60)));
  EXPECT_EQ(f.get(), 7);
}

TEST_F(ending, memory_of_the_dead) {
  buffer<int> there = victim_.allocate<int>(1'000'000);
  buffer<int> elsewhere = other_.allocate<int>(1'000'000);
  const std::vector<int> sent(1'000'000, 3);
  put_sync(sent, there);
  EXPECT_THAT(end_of([] { ::_exit(1); }), HasSubstr("status 1"));
  std::vector<int> got(1'000'000);
  EXPECT_THROW(put(sent, there).get(), node_failed);
  EXPECT_THROW(put(std::span(sent).first(1), there).get(), node_failed);
  EXPECT_THROW(get(there, got).get(), node_failed);
  EXPECT_THROW(put_sync(sent, there), node_failed);
  EXPECT_THROW(get_sync(there, got), node_failed);
  EXPECT_THROW(copy(elsewhere, there).get(), node_failed);
  EXPECT_THROW(copy(there, elsewhere).get(), error);
  put_sync(sent, elsewhere);
  there.reset();
}

TEST_F(ending, one_after_the_other) {
  for (const node& n : job_->targets()) {
    EXPECT_THROW(sync(n, [] { ::_exit(1); }), node_failed);
  }
  for (const node& n : job_->targets())
    EXPECT_FALSE(n.alive());
  EXPECT_EQ(sync(job_->host(), [] { return 3; }), 3);
}

TEST_F(ending, while_it_calls_the_host) {
  // The host's handler continues for a while, although its caller is gone.
  future<void> f = async(victim_, [] {
    sync(host(), [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ::kill(pids_[0], SIGKILL);
  EXPECT_THROW(f.get(), node_failed);
  expect_failed();
}

TEST_F(ending, stopped_processes_have_not_failed) {
  stop_process(pids_[0]);
  future<int> f = async(victim_, [] { return 4; });
  EXPECT_FALSE(f.wait_for(std::chrono::milliseconds(100)));
  EXPECT_TRUE(victim_.alive());
  EXPECT_THROW((void)sync(victim_.within(std::chrono::milliseconds(30)), [] { return 5; }),
               timeout);
  ::kill(pids_[0], SIGCONT);
  EXPECT_EQ(f.get(), 4);
}

TEST_F(ending, stopped_targets_are_killed_at_the_jobs_end) {
  stop_process(pids_[0]);
  const auto begin = std::chrono::steady_clock::now();
  job_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

} // namespace
} // namespace farcall::test
