// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/shared_future.hpp>
#include <tests/jobs.hpp>
#include <tests/sanitizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall::test::future_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class futures : public job_test {
 protected:
  futures() : gate_(target_) {}

  /// Returns a future that becomes ready, with `v`, when open() is called.
  future<int> held(int v) {
    return async(
        target_,
        [](handshake::words words, int there) {
          return handshake::wait(words.local(), 0, 1) ? there : -1;
        },
        gate_.span(), v);
  }
  void open() { gate_.set(0); }

  handshake gate_;
};

int twice(int v) { return 2 * v; }
std::string text_of(int v) { return std::string(200, static_cast<char>('a' + v % 26)); }
int thrower(int v) { throw std::out_of_range("value " + std::to_string(v)); }

static_assert(std::is_nothrow_move_constructible_v<future<int>>);
static_assert(std::is_nothrow_move_assignable_v<future<std::string>>);
static_assert(!std::is_copy_constructible_v<future<int>>);
static_assert(!std::is_copy_assignable_v<future<void>>);

TEST_F(futures, valid_until_taken) {
  future<int> f;
  EXPECT_FALSE(f.valid());
  f = async(target_, twice, 4);
  EXPECT_TRUE(f.valid());
  EXPECT_EQ(f.get(), 8);
  EXPECT_FALSE(f.valid());
}

TEST_F(futures, empty_ones_throw) {
  future<int> f;
  EXPECT_THAT(text_thrown_by<error>([&] { (void)f.get(); }), HasSubstr("empty"));
  EXPECT_THROW(f.wait(), error);
  EXPECT_THROW((void)f.test(), error);
  EXPECT_THROW((void)f.wait_for(milliseconds(1)), error);
  EXPECT_THROW((void)f.then([](future<int>) {}), error);
  f = async(target_, twice, 1);
  (void)f.get();
  EXPECT_THROW((void)f.get(), error);
  future<int> g = async(target_, twice, 1);
  const future<int> h = std::move(g);
  // Empty, as documented. NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_THROW((void)g.get(), error);
  EXPECT_TRUE(h.valid());
}

TEST_F(futures, test_does_not_wait) {
  future<int> f = held(3);
  EXPECT_FALSE(f.test());
  EXPECT_FALSE(f.test());
  open();
  while (!f.test())
    std::this_thread::yield();
  EXPECT_TRUE(f.test());
  EXPECT_TRUE(f.valid());
  EXPECT_EQ(f.get(), 3);
}

TEST_F(futures, wait_for) {
  future<int> f = held(3);
  EXPECT_FALSE(f.wait_for(milliseconds(0)));
  EXPECT_FALSE(f.wait_for(milliseconds(20)));
  open();
  EXPECT_TRUE(f.wait_for(wait_limit));
  EXPECT_TRUE(f.wait_for(milliseconds(0)));
  f.wait();
  EXPECT_EQ(f.get(), 3);
}

TEST_F(futures, wait_as_long_as_a_duration_can_be) {
  constexpr auto longest = std::chrono::nanoseconds::max();
  EXPECT_TRUE(async(target_, [] { return 1; }).wait_for(longest));
  EXPECT_EQ(sync(target_.within(longest), [] { return 2; }), 2);
}

TEST_F(futures, wait_for_ready_by_nobody) {
  future<int> f = held(3);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(f.wait_for(milliseconds(50)));
  EXPECT_GE(std::chrono::steady_clock::now() - before, milliseconds(50));
  open();
}

TEST_F(futures, failures_are_kept_until_taken) {
  future<int> f = async(target_, thrower, 3);
  f.wait();
  EXPECT_TRUE(f.valid());
  EXPECT_TRUE(f.test());
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)f.get(); }), HasSubstr("value 3"));
  EXPECT_FALSE(f.valid());
}

TEST_F(futures, results_of_every_size) {
  auto small = async(target_, twice, 1);
  auto medium = async(target_, [] { return std::array<char, 48>{'m'}; });
  auto large = async(target_, [] { return std::array<char, 4096>{'l'}; });
  auto owning = async(target_, [] { return std::make_unique<int>(5); });
  auto nothing = async(target_, [] {});
  EXPECT_EQ(*owning.get(), 5);
  EXPECT_EQ(large.get()[0], 'l');
  EXPECT_EQ(medium.get()[0], 'm');
  EXPECT_EQ(small.get(), 2);
  nothing.get();
  EXPECT_FALSE(nothing.valid());
}

TEST_F(futures, taken_in_any_order) {
  std::vector<future<std::string>> all;
  for (int i = 0; i < 1000; ++i)
    all.push_back(async(target_, text_of, i));
  for (int i = 1000; i-- > 0;)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].get(), text_of(i));
}

TEST_F(futures, move) {
  future<int> f = async(target_, twice, 2);
  future<int> g(std::move(f));
  // Empty, as documented.
  EXPECT_FALSE(f.valid()); // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  future<int> h = async(target_, twice, 3);
  h = std::move(g);
  EXPECT_EQ(h.get(), 4);
}

TEST_F(futures, dropped_pending) {
  for (int i = 0; i < 1000; ++i)
    (void)held(i);
  EXPECT_FALSE(held(1).test());
  open();
  EXPECT_EQ(sync(target_, twice, 2), 4);
}

TEST_F(futures, dropped_ready) {
  for (int i = 0; i < 300; ++i) {
    future<std::string> f = async(target_, text_of, i);
    f.wait();
  }
  for (int i = 0; i < 300; ++i) {
    future<int> f = async(target_, thrower, i);
    f.wait();
  }
  EXPECT_EQ(sync(target_, twice, 2), 4);
}

TEST_F(futures, dropped_with_large_results_give_memory_back) {
  job_options options = with_targets("shm");
  options.heap_bytes = 128U << 20;
  const job small(options);
  const node& there = small.targets()[0];
  const auto large = [] { return std::vector<char>(10U << 20, 'x'); };
  // If they were kept, these would take four times the memory.
  for (int i = 0; i < 50; ++i) {
    (void)async(there, large);
    if (i % 4 == 0) {
      EXPECT_EQ(sync(there, large).size(), 10U << 20) << i;
    }
  }
}

// ---- threads ------------------------------------------------------------------------------------

TEST_F(futures, taken_by_another_thread) {
  future<std::string> f = async(target_, text_of, 3);
  std::string got;
  std::thread([&, moved = std::move(f)]() mutable { got = moved.get(); }).join();
  EXPECT_EQ(got, text_of(3));
}

TEST_F(futures, waited_for_by_a_thread_that_sleeps) {
  // The other thread is asleep long before the reply comes.
  future<int> f = held(5);
  std::atomic<bool> started{false};
  int got = 0;
  std::thread waiting([&] {
    started = true;
    got = f.get();
  });
  while (!started)
    std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  open();
  waiting.join();
  EXPECT_EQ(got, 5);
}

TEST_F(futures, many_threads_wait_for_one_lane) {
  std::vector<future<int>> all;
  for (int i = 0; i < 16; ++i)
    all.push_back(held(i));
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (auto& f : all)
    threads.emplace_back([&] { sum += f.get(); });
  std::this_thread::sleep_for(milliseconds(20));
  open();
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(sum, 120);
}

TEST_F(futures, handed_over_by_a_thread_that_ends) {
  for (int i = 0; i < 100; ++i) {
    future<int> f;
    std::thread([&] { f = async(target_, twice, i); }).join();
    EXPECT_EQ(f.get(), 2 * i);
  }
}

TEST_F(futures, many_passed_between_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        std::vector<future<int>> mine;
        for (int i = 0; i < 200; ++i)
          mine.push_back(async(target_, twice, i));
        std::thread([&, moved = std::move(mine)]() mutable {
          for (int i = 0; i < 200; ++i)
            wrong += moved[static_cast<std::size_t>(i)].get() != 2 * i;
        }).join();
      }
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

// ---- then ---------------------------------------------------------------------------------------

TEST_F(futures, then_gets_the_ready_future) {
  future<std::string> f = async(target_, twice, 4).then([](future<int> v) {
    EXPECT_TRUE(v.test());
    return std::to_string(v.get());
  });
  EXPECT_EQ(f.get(), "8");
}

TEST_F(futures, then_on_one_that_is_ready_already) {
  future<int> f = async(target_, twice, 4);
  f.wait();
  bool ran = false;
  future<void> g = f.then([&](future<int> v) {
    ran = true;
    EXPECT_EQ(v.get(), 8);
  });
  EXPECT_TRUE(ran);
  // Empty, as documented.
  EXPECT_FALSE(f.valid()); // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  g.get();
}

TEST_F(futures, then_chains) {
  future<int> f = held(1);
  for (int i = 0; i < 100; ++i)
    f = f.then([](future<int> v) { return v.get() + 1; });
  EXPECT_FALSE(f.test());
  open();
  EXPECT_EQ(f.get(), 101);
}

TEST_F(futures, then_passes_failures_on) {
  future<int> f = async(target_, thrower, 6)
                      .then([](future<int> v) { return v.get() + 1; })
                      .then([](future<int> v) { return v.get() + 1; });
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)f.get(); }), HasSubstr("value 6"));
}

TEST_F(futures, then_that_throws) {
  future<int> f = async(target_, twice, 1).then([](future<int>) -> int {
    throw std::logic_error("in between");
  });
  EXPECT_THROW((void)f.get(), std::logic_error);
  future<int> g = async(target_, twice, 1).then([](future<int>) -> future<int> {
    throw std::logic_error("in between");
  });
  EXPECT_THROW((void)g.get(), std::logic_error);
}

TEST_F(futures, then_can_recover) {
  future<int> f = async(target_, thrower, 6).then([](future<int> v) {
    try {
      return v.get();
    } catch (const remote_error& e) {
      return static_cast<int>(e.text().size());
    }
  });
  EXPECT_EQ(f.get(), 7);
}

TEST_F(futures, then_flattens) {
  future<int> f = async(target_, twice, 1).then([this](future<int> v) {
    return async(target_, twice, v.get());
  });
  static_assert(std::is_same_v<decltype(f), future<int>>);
  EXPECT_EQ(f.get(), 4);

  future<int> failing = async(target_, twice, 1).then([this](future<int> v) {
    return async(target_, thrower, v.get());
  });
  EXPECT_THROW((void)failing.get(), remote_error);
}

TEST_F(futures, then_flattens_one_that_stays_pending) {
  future<int> f = async(target_, twice, 1).then([this](future<int>) { return held(9); });
  EXPECT_FALSE(f.wait_for(milliseconds(30)));
  open();
  EXPECT_EQ(f.get(), 9);
}

TEST_F(futures, then_flattens_after_a_future_ready_from_the_start) {
  // Neither a small copy nor a ready future belongs to any lane; the call in then() does.
  future<int> f =
      make_ready_future(4).then([this](future<int> v) { return async(target_, twice, v.get()); });
  EXPECT_EQ(f.get(), 8);

  const buffer<int> memory = target_.allocate<int>(1);
  const std::vector<int> one{21};
  future<int> g = put(one, memory).then([&](future<void> done) {
    done.get();
    return async(target_, [](remote_span<int> s) { return 2 * s[0]; }, memory.span());
  });
  EXPECT_EQ(g.get(), 42);

  future<int> h = make_ready_future().then([this](future<void>) { return held(3); });
  EXPECT_FALSE(h.test());
  EXPECT_FALSE(h.wait_for(milliseconds(20)));
  open();
  EXPECT_TRUE(h.wait_for(wait_limit));
  EXPECT_EQ(h.get(), 3);
}

TEST_F(futures, then_refuses_empty_and_foreign_futures) {
  const job another(with_targets("shm"));
  auto empty = async(target_, [] { return 1; }).then([](future<int>) { return future<int>(); });
  EXPECT_THAT(text_thrown_by<error>([&] { (void)empty.get(); }), HasSubstr("an empty future"));
  auto foreign = async(target_, [] { return 1; }).then([&](future<int>) {
    return async(another.targets()[0], [] { return 2; });
  });
  EXPECT_THAT(text_thrown_by<error>([&] { (void)foreign.get(); }), HasSubstr("different jobs"));
}

TEST_F(futures, then_of_void) {
  future<int> f = async(target_, [] {}).then([](future<void> v) {
    v.get();
    return 3;
  });
  EXPECT_EQ(f.get(), 3);
}

TEST_F(futures, then_with_owning_captures_and_results) {
  auto owned = std::make_unique<int>(5);
  future<std::unique_ptr<int>> f =
      // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the continuation has it, and runs
      async(target_, twice, 4).then([o = std::move(owned)](future<int> v) mutable {
        *o += v.get();
        return std::move(o);
      });
  EXPECT_EQ(*f.get(), 13);
}

TEST_F(futures, then_whose_result_is_dropped_still_runs) {
  std::atomic<bool> ran{false};
  (void)held(1).then([&](future<int>) { ran = true; });
  EXPECT_FALSE(ran);
  open();
  // Any thread that takes replies will do.
  while (!ran)
    (void)sync(target_, twice, 1);
}

TEST_F(futures, then_waited_for_by_another_thread) {
  future<int> f = held(1).then([this](future<int> v) { return async(target_, twice, v.get()); });
  int got = 0;
  std::thread waiting([&] { got = f.get(); });
  std::this_thread::sleep_for(milliseconds(20));
  open();
  waiting.join();
  EXPECT_EQ(got, 2);
}

TEST_F(futures, then_keeps_the_deadline) {
  future<int> f =
      async(
          target_.within(milliseconds(20)),
          [](handshake::words w) { return handshake::wait(w.local(), 0, 1) ? 1 : 0; }, gate_.span())
          .then([](future<int> v) { return v.get(); });
  EXPECT_THROW((void)f.get(), timeout);
  open();
  EXPECT_EQ(f.within(wait_limit).get(), 1);
}

TEST_F(futures, that_are_tested_keep_the_deadline) {
  const auto starts = [this] {
    return async(
        target_.within(milliseconds(20)),
        [](handshake::words w) { return handshake::wait(w.local(), 0, 1) ? 1 : 0; }, gate_.span());
  };
  future<int> tested = starts();
  EXPECT_TRUE(eventually([&] { return tested.test(); }));
  EXPECT_THROW((void)tested.get(), timeout);
  future<int> waited = starts();
  EXPECT_TRUE(waited.wait_for(wait_limit)) << "it ends at the deadline";
  EXPECT_TRUE(waited.wait_for(wait_limit)) << "and has passed";
  EXPECT_THROW((void)waited.get(), timeout);
  const shared_future<int> shared = starts().share();
  EXPECT_TRUE(shared.wait_for(wait_limit));
  EXPECT_TRUE(shared.test());
  EXPECT_THROW((void)shared.get(), timeout);
  open();
  EXPECT_EQ(waited.within(wait_limit).get(), 1) << "which replaces it";
}

TEST_F(futures, continuations_may_call_and_wait) {
  future<int> f = async(target_, twice, 1).then([this](future<int> v) {
    int sum = v.get();
    for (int i = 0; i < 100; ++i)
      sum += sync(target_, twice, 1);
    return sum;
  });
  EXPECT_EQ(f.get(), 202);
}

TEST_F(futures, continuations_run_in_the_order_of_the_replies) {
  std::vector<int> order;
  std::vector<future<void>> all;
  for (int i = 0; i < 1000; ++i) {
    all.push_back(async(target_, twice, i).then([&order, i](future<int> f) {
      EXPECT_EQ(f.get(), 2 * i);
      order.push_back(i);
    }));
  }
  for (auto& f : all)
    f.get();
  EXPECT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

future<int> count_down(const node& where, int left) {
  return async(where, twice, left).then([where, left](future<int> f) {
    (void)f.get();
    return left == 0 ? make_ready_future(0) : count_down(where, left - 1);
  });
}

TEST_F(futures, loops_of_then_take_no_stack) { EXPECT_EQ(count_down(target_, 100'000).get(), 0); }

TEST_F(futures, chains_of_then_take_no_stack) {
  future<int> f = held(0);
  for (int i = 0; i < 100'000; ++i)
    f = f.then([](future<int> before) { return before.get() + 1; });
  open();
  EXPECT_EQ(f.get(), 100'000);
}

/// Waits for a continuation that waits in turn, `left` levels deep.
int wait_inside(const node& where, int left) {
  if (left == 0) return 0;
  return async(where, twice, left)
      .then([where, left](future<int>) { return wait_inside(where, left - 1) + 1; })
      .get();
}

TEST_F(futures, waits_nested_in_continuations_end_at_low_stack) {
  if (under_thread_sanitizer) GTEST_SKIP() << "it records stacks of 65,536 calls at most";
  EXPECT_THROW((void)wait_inside(target_, 1'000'000), nested_too_deep);
}

TEST_F(futures, long_chains_of_calls) {
  future<int> f = async(target_, twice, 0);
  for (int i = 0; i < 1000; ++i) {
    f = f.then([this](future<int> v) {
      return async(target_, [](int there) { return there + 1; }, v.get());
    });
  }
  EXPECT_EQ(f.get(), 1000);
}

// ---- ready ones ---------------------------------------------------------------------------------

TEST(ready_futures, need_no_job) {
  future<std::string> f = make_ready_future(std::string("here"));
  EXPECT_TRUE(f.valid());
  EXPECT_TRUE(f.test());
  EXPECT_TRUE(f.wait_for(milliseconds(0)));
  f.wait();
  EXPECT_EQ(f.get(), "here");
  EXPECT_FALSE(f.valid());

  future<void> nothing = make_ready_future();
  EXPECT_TRUE(nothing.test());
  nothing.get();
  EXPECT_FALSE(nothing.valid());
  EXPECT_THROW(nothing.get(), error);

  EXPECT_EQ(make_ready_future(1).then([](future<int> v) { return v.get() + 1; }).get(), 2);
  make_ready_future().then([](future<void> v) { v.get(); }).get();
  EXPECT_EQ(*make_ready_future(std::make_unique<int>(3)).get(), 3);
}

} // namespace
} // namespace farcall::test::future_test
