// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/shared_future.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace farcall::test::shared_future_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

static_assert(std::is_same_v<decltype(shared_future<int>().get()), const int&>);
static_assert(std::is_same_v<decltype(shared_future<void>().get()), void>);
static_assert(!is_packable_v<shared_future<int>>);

// ---- without a job ------------------------------------------------------------------------------

TEST(shared_futures, give_one_result_to_all_copies) {
  promise<std::string> p;
  future<std::string> f = p.get_future();
  const shared_future<std::string> first = f.share();
  EXPECT_FALSE(f.valid());
  const shared_future<std::string> second = first;
  EXPECT_TRUE(first.valid());
  EXPECT_FALSE(first.test());
  EXPECT_FALSE(second.wait_for(milliseconds(1)));
  p.set_value("given");
  EXPECT_TRUE(second.test());
  EXPECT_EQ(first.get(), "given");
  EXPECT_EQ(&first.get(), &second.get());
}

TEST(shared_futures, of_nothing) {
  const shared_future<void> ready = make_ready_future().share();
  EXPECT_TRUE(ready.test());
  ready.get();
  ready.get();
  promise<void> p;
  const shared_future<void> later = p.get_future().share();
  EXPECT_FALSE(later.test());
  p.set_value();
  later.get();
}

TEST(shared_futures, throw_the_same_each_time) {
  promise<int> p;
  const shared_future<int> f = p.get_future().share();
  const shared_future<int> g = f;
  p.set_exception(std::make_exception_ptr(std::out_of_range("given")));
  EXPECT_THROW((void)f.get(), std::out_of_range);
  EXPECT_THROW((void)f.get(), std::out_of_range);
  EXPECT_THROW((void)g.get(), std::out_of_range);
}

TEST(shared_futures, that_are_empty_say_so) {
  const shared_future<int> none;
  EXPECT_FALSE(none.valid());
  EXPECT_THAT(text_thrown_by<error>([&] { (void)none.get(); }), HasSubstr("empty"));
  EXPECT_THROW((void)none.test(), error);
  EXPECT_THROW((void)none.wait_for(milliseconds(1)), error);
  EXPECT_THROW((void)none.then([](const shared_future<int>&) {}), error);
  EXPECT_THROW((void)future<int>().share(), error);
}

TEST(shared_futures, can_be_copied_and_moved) {
  shared_future<int> f = make_ready_future(1); // from a future, as std::shared_future
  shared_future<int> g = std::move(f);
  // NOLINTNEXTLINE(bugprone-use-after-move): what is left is what is tested
  EXPECT_FALSE(f.valid());
  f = g;
  EXPECT_EQ(f.get() + g.get(), 2);
  f = make_ready_future(2);
  g = std::move(f);
  EXPECT_EQ(g.get(), 2);
  const shared_future<int>& same = g;
  g = same;
  EXPECT_EQ(g.get(), 2);
}

TEST(shared_futures, keep_the_result_until_the_last_goes) {
  auto value = std::make_shared<int>(1);
  shared_future<std::shared_ptr<int>> f = make_ready_future(value).share();
  shared_future<std::shared_ptr<int>> g = f;
  f = {};
  EXPECT_EQ(value.use_count(), 2);
  g = {};
  EXPECT_EQ(value.use_count(), 1);
}

TEST(shared_futures, hold_what_can_only_be_moved) {
  const auto f = make_ready_future(std::make_unique<int>(4)).share();
  EXPECT_EQ(*f.get(), 4);
}

TEST(shared_futures, run_what_follows_in_its_order) {
  promise<int> p;
  const shared_future<int> f = p.get_future().share();
  std::vector<int> order;
  std::vector<future<int>> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(f.then([&order, i](const shared_future<int>& ready) {
      order.push_back(i);
      return ready.get() + i;
    }));
  }
  EXPECT_TRUE(order.empty());
  p.set_value(10);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(results[static_cast<std::size_t>(i)].get(), 10 + i);
  // The future is ready now.
  (void)f.then([&order](const shared_future<int>&) { order.push_back(4); });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(shared_futures, pass_exceptions_on_to_what_follows) {
  promise<int> p;
  const shared_future<int> f = p.get_future().share();
  future<int> g = f.then([](const shared_future<int>& ready) { return ready.get(); });
  future<int> h = f.then([](const shared_future<int>&) -> int { throw std::logic_error("then"); });
  p.set_exception(std::make_exception_ptr(std::out_of_range("given")));
  EXPECT_THROW((void)g.get(), std::out_of_range);
  EXPECT_THROW((void)h.get(), std::logic_error);
}

TEST(shared_futures, take_futures_that_functions_return) {
  promise<int> p;
  promise<int> q;
  const shared_future<int> f = p.get_future().share();
  future<int> g = f.then([&](const shared_future<int>&) { return q.get_future(); });
  p.set_value(1);
  EXPECT_FALSE(g.test());
  q.set_value(2);
  EXPECT_EQ(g.get(), 2);
}

TEST(shared_futures, made_in_a_continuation_are_ready_there) {
  promise<int> p;
  future<int> f = p.get_future().then([](future<int> ready) {
    const shared_future<int> shared = ready.share();
    return shared.test() ? shared.get() : -1;
  });
  p.set_value(3);
  EXPECT_EQ(f.get(), 3);
}

TEST(shared_futures, may_all_be_dropped_before_what_follows_has_run) {
  promise<std::string> p;
  future<std::size_t> length;
  {
    const shared_future<std::string> f = p.get_future().share();
    length = f.then([](const shared_future<std::string>& ready) { return ready.get().size(); });
    (void)f.then([](const shared_future<std::string>&) {});
  }
  p.set_value("given");
  EXPECT_EQ(length.get(), 5U);
  promise<int> never_asked;
  (void)never_asked.get_future().share();
  never_asked.set_value(1);
}

TEST(shared_futures, run_a_hundred_thousand_continuations_in_little_stack) {
  constexpr int many = 100'000;
  promise<int> p;
  const shared_future<int> first = p.get_future().share();
  std::atomic<int> side_by_side{0};
  for (int i = 0; i < many; ++i)
    (void)first.then([&](const shared_future<int>& f) { side_by_side += f.get(); });
  // Each continuation completes the next.
  shared_future<int> last = first;
  for (int i = 0; i < many; ++i)
    last = last.then([](const shared_future<int>& f) { return f.get() + 1; });
  p.set_value(1);
  EXPECT_EQ(side_by_side, many);
  EXPECT_EQ(last.get(), many + 1);
}

future<std::size_t> awaits(shared_future<std::string> f) { co_return (co_await f).size(); }

TEST(shared_futures, are_awaited_by_many) {
  promise<std::string> p;
  const shared_future<std::string> f = p.get_future().share();
  std::vector<future<std::size_t>> sizes;
  for (int i = 0; i < 3; ++i)
    sizes.push_back(awaits(f));
  p.set_value("four");
  sizes.push_back(awaits(f));
  for (auto& size : sizes)
    EXPECT_EQ(size.get(), 4U);
}

TEST(shared_futures, throw_into_coroutines) {
  promise<std::string> p;
  future<std::size_t> size = awaits(p.get_future().share());
  p.set_exception(std::make_exception_ptr(std::out_of_range("given")));
  EXPECT_THROW((void)size.get(), std::out_of_range);
}

/// A coroutine that its owner destroys.
struct owned_coroutine {
  struct promise_type {
    owned_coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> frame;
};

owned_coroutine awaits_and_counts(shared_future<int> f, int& resumed) {
  (void)co_await f;
  ++resumed;
}

TEST(shared_futures, do_not_resume_coroutines_that_are_gone) {
  promise<int> p;
  const shared_future<int> f = p.get_future().share();
  int resumed = 0;
  const owned_coroutine gone = awaits_and_counts(f, resumed);
  const owned_coroutine stays = awaits_and_counts(f, resumed);
  gone.frame.destroy();
  p.set_value(1);
  EXPECT_EQ(resumed, 1);
  stays.frame.destroy();
}

TEST(shared_futures, wake_all_threads_that_wait) {
  promise<int> p;
  const shared_future<int> f = p.get_future().share();
  std::atomic<int> sum{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&sum, f] { sum += f.get(); });
  std::this_thread::sleep_for(milliseconds(10));
  p.set_value(5);
  threads.clear();
  EXPECT_EQ(sum, 20);
}

TEST(shared_futures, race_between_threads) {
  // Threads wait, follow, await, copy and drop while another thread sets the value.
  for (int round = 0; round < 300; ++round) {
    promise<std::string> p;
    std::atomic<std::size_t> sum{0};
    std::vector<std::jthread> threads;
    {
      const shared_future<std::string> f = p.get_future().share();
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&sum, f = f]() mutable {
          (void)f.then([&sum](const shared_future<std::string>& r) { sum += r.get().size(); });
          future<std::size_t> awaited = awaits(f);
          const shared_future<std::string> copy = f;
          f = {};
          sum += copy.get().size();
          sum += awaited.get();
          (void)copy.then([&sum](const shared_future<std::string>& r) { sum += r.get().size(); });
        });
      }
    }
    p.set_value("four");
    threads.clear();
    ASSERT_EQ(sum, 4U * 4U * 4U);
  }
}

// ---- with a job ---------------------------------------------------------------------------------

class shared_futures_of_calls : public two_targets_test {
 protected:
  shared_futures_of_calls() : gate_(target_) {}

  future<int> held(int v) {
    return async(
        target_,
        [](handshake::words words, int there) {
          return handshake::wait(words.local(), 0, 1) ? there : -1;
        },
        gate_.span(), v);
  }

  handshake gate_;
};

int twice(int v) { return 2 * v; }
std::string long_text() { return std::string(100'000, 'x'); }

TEST_F(shared_futures_of_calls, give_the_result) {
  const shared_future<int> f = async(target_, twice, 2).share();
  const shared_future<std::string> text = async(other_, long_text);
  EXPECT_EQ(f.get() + f.get(), 8);
  EXPECT_EQ(text.get().size(), 100'000U);
  const shared_future<int> bad =
      async(target_, []() -> int { throw std::runtime_error("there"); }).share();
  EXPECT_THROW((void)bad.get(), remote_error);
  EXPECT_THROW((void)bad.get(), remote_error);
}

TEST_F(shared_futures_of_calls, are_ready_for_all_threads) {
  const shared_future<int> f = held(3).share();
  EXPECT_FALSE(f.test());
  EXPECT_FALSE(f.wait_for(milliseconds(10)));
  std::atomic<int> sum{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&sum, f] {
      sum += f.get();
      while (!f.test()) {
      }
    });
  }
  gate_.set(0);
  sum += f.get();
  threads.clear();
  EXPECT_EQ(sum, 15);
}

TEST_F(shared_futures_of_calls, are_taken_by_threads_other_than_the_caller) {
  shared_future<int> f = held(3).share();
  std::jthread waiting([f] { EXPECT_EQ(f.get(), 3); });
  gate_.set(0);
  waiting.join();
  EXPECT_EQ(f.get(), 3);
}

TEST_F(shared_futures_of_calls, keep_the_deadline) {
  const shared_future<int> f = async(
                                   target_.within(milliseconds(20)),
                                   [](handshake::words words) {
                                     return static_cast<int>(handshake::wait(words.local(), 0, 1));
                                   },
                                   gate_.span())
                                   .share();
  const shared_future<int> copy = f;
  EXPECT_THROW((void)f.get(), timeout);
  future<int> next = copy.then([](const shared_future<int>& ready) { return ready.get(); });
  EXPECT_THROW(next.wait(), timeout);
  gate_.set(0);
  EXPECT_EQ(copy.within(wait_limit).get(), 1);
  EXPECT_EQ(f.get(), 1);
}

TEST_F(shared_futures_of_calls, start_several_calls) {
  const shared_future<int> f = held(1).share();
  std::vector<future<int>> next;
  for (int i = 0; i < 8; ++i) {
    next.push_back(
        f.then([where = &(i % 2 == 0 ? target_ : other_), i](const shared_future<int>& r) {
          return async(*where, twice, r.get() + i);
        }));
  }
  gate_.set(0);
  int sum = 0;
  for (auto& n : when_all(std::move(next)).get())
    sum += n.get();
  EXPECT_EQ(sum, 72);
}

future<int> adds(shared_future<int> first, node where) {
  const int one = co_await first;
  co_return one + co_await async(where, twice, one);
}

TEST_F(shared_futures_of_calls, are_awaited) {
  const shared_future<int> f = held(2).share();
  future<int> a = adds(f, target_);
  future<int> b = adds(f, other_);
  EXPECT_FALSE(a.wait_for(milliseconds(10)));
  gate_.set(0);
  EXPECT_EQ(a.get() + b.get(), 12);
}

TEST_F(shared_futures_of_calls, race_with_the_reply) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> sum{0};
    shared_future<int> f = async(round % 2 == 0 ? target_ : other_, twice, 1).share();
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&sum, f = f]() mutable {
        const future<void> next = f.then([&sum](const shared_future<int>& r) { sum += r.get(); });
        sum += f.get();
        f = {};
      });
    }
    f = {};
    threads.clear();
    ASSERT_EQ(sum, 12);
  }
}

TEST(shared_futures_and_jobs, outlive_the_job) {
  shared_future<int> ready;
  shared_future<int> failed;
  future<int> next;
  {
    job j(with_targets("shm"));
    const node target = j.targets().front();
    ready = async(target, twice, 2).share();
    ready.wait();
    failed = async(target, [] {
               std::this_thread::sleep_for(std::chrono::hours(1));
               return 1;
             }).share();
    next = failed.then([](const shared_future<int>& f) { return f.get(); });
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
  }
  EXPECT_EQ(ready.get(), 4);
  EXPECT_THROW((void)failed.get(), node_failed);
  EXPECT_THROW((void)failed.get(), node_failed);
  EXPECT_THROW((void)next.get(), node_failed);
}

} // namespace
} // namespace farcall::test::shared_future_test
