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
#include <csignal>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace farcall::test::combine_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class combining : public two_targets_test {
 protected:
  combining() : gate_(target_) {}

  /// Returns a future that becomes ready when word `i` is set. Calls of one lane end in order.
  future<int> held(std::size_t i, int v) {
    return async(
        target_,
        [](handshake::words words, std::size_t at, int there) {
          return handshake::wait(words.local(), at, 1) ? there : -1;
        },
        gate_.span(), i, v);
  }

  handshake gate_;
};

int twice(int v) { return 2 * v; }
std::string text(int v) { return std::string(100, static_cast<char>('a' + v)); }
int thrower() { throw std::runtime_error("one of many"); }

TEST_F(combining, all_of_different_types) {
  auto all = when_all(async(target_, twice, 2), async(other_, text, 1), async(target_, [] {}));
  static_assert(std::is_same_v<decltype(all),
                               future<std::tuple<future<int>, future<std::string>, future<void>>>>);
  auto [number, word, nothing] = all.get();
  EXPECT_TRUE(number.test());
  EXPECT_TRUE(word.test());
  EXPECT_EQ(number.get(), 4);
  EXPECT_EQ(word.get(), text(1));
  nothing.get();
}

TEST_F(combining, all_waits_for_the_last) {
  future<int> early = async(other_, twice, 1);
  early.wait();
  auto all = when_all(std::move(early), held(0, 1), held(1, 2));
  EXPECT_FALSE(all.test());
  gate_.set(0);
  EXPECT_FALSE(all.wait_for(milliseconds(20)));
  gate_.set(1);
  auto [a, b, c] = all.get();
  EXPECT_EQ(a.get() + b.get() + c.get(), 5);
}

TEST_F(combining, all_of_a_vector) {
  std::vector<future<int>> futures;
  for (int i = 0; i < 10'000; ++i)
    futures.push_back(async(i % 2 == 0 ? target_ : other_, twice, i));
  std::vector<future<int>> ready = when_all(std::move(futures)).get();
  ASSERT_EQ(ready.size(), 10'000U);
  for (int i = 0; i < 10'000; ++i)
    EXPECT_EQ(ready[static_cast<std::size_t>(i)].get(), 2 * i);
}

TEST_F(combining, all_of_none) {
  EXPECT_TRUE(when_all(std::vector<future<int>>{}).get().empty());
  (void)when_all().get();
}

TEST_F(combining, all_of_ready_ones) {
  auto [a, b] = when_all(make_ready_future(1), make_ready_future()).get();
  EXPECT_EQ(a.get(), 1);
  b.get();
  const buffer<int> memory = target_.allocate<int>(1);
  const std::vector<int> five{5};
  auto both = when_all(put(five, memory), held(0, 3));
  EXPECT_FALSE(both.wait_for(milliseconds(10)));
  gate_.set(0);
  auto [c, d] = both.get();
  c.get();
  EXPECT_EQ(d.get(), 3);
}

TEST_F(combining, all_keeps_failures_in_the_futures) {
  auto all = when_all(async(target_, thrower), async(target_, twice, 4));
  all.wait();
  auto [bad, good] = all.get();
  EXPECT_EQ(good.get(), 8);
  EXPECT_THAT(text_thrown_by<remote_error>([&, &b = bad] { (void)b.get(); }),
              HasSubstr("one of many"));
}

TEST_F(combining, all_of_all) {
  std::vector<future<std::vector<future<int>>>> groups;
  for (int g = 0; g < 10; ++g) {
    std::vector<future<int>> group;
    for (int i = 0; i < 10; ++i)
      group.push_back(async(target_, twice, g * 10 + i));
    groups.push_back(when_all(std::move(group)));
  }
  int sum = 0;
  for (auto& group : when_all(std::move(groups)).get()) {
    for (auto& f : group.get())
      sum += f.get();
  }
  EXPECT_EQ(sum, 9900);
}

TEST_F(combining, all_then) {
  future<int> f = when_all(async(target_, twice, 2), async(other_, twice, 3)).then([](auto both) {
    auto [a, b] = both.get();
    return a.get() + b.get();
  });
  EXPECT_EQ(f.get(), 10);
}

TEST_F(combining, dropped) {
  (void)when_all(held(0, 1), held(0, 2));
  std::vector<future<int>> any;
  any.push_back(held(0, 1));
  (void)when_any(std::move(any));
  gate_.set(0);
  EXPECT_EQ(sync(target_, twice, 1), 2);
}

TEST_F(combining, any_gives_the_first_and_the_others) {
  std::vector<future<int>> futures;
  futures.push_back(held(0, 10));
  futures.push_back(async(other_, twice, 4));
  futures.push_back(held(1, 11));
  when_any_result<int> first = when_any(std::move(futures)).get();
  EXPECT_EQ(first.index, 1U);
  ASSERT_EQ(first.futures.size(), 3U);
  EXPECT_EQ(first.futures[1].get(), 8);
  EXPECT_FALSE(first.futures[0].test());
  // The others can be waited for again.
  first.futures.erase(first.futures.begin() + 1);
  gate_.set(0);
  when_any_result<int> second = when_any(std::move(first.futures)).get();
  EXPECT_EQ(second.index, 0U);
  EXPECT_EQ(second.futures[0].get(), 10);
  gate_.set(1);
  EXPECT_EQ(second.futures[1].get(), 11);
}

TEST_F(combining, any_of_ready_ones_is_ready) {
  std::vector<future<int>> futures;
  futures.push_back(held(0, 1));
  futures.push_back(make_ready_future(2));
  future<when_any_result<int>> f = when_any(std::move(futures));
  EXPECT_TRUE(f.test());
  when_any_result<int> r = f.get();
  EXPECT_EQ(r.index, 1U);
  EXPECT_EQ(r.futures[1].get(), 2);
  gate_.set(0);
  EXPECT_EQ(r.futures[0].get(), 1);
}

TEST_F(combining, any_that_fails_counts_as_ready) {
  std::vector<future<int>> futures;
  futures.push_back(held(0, 1));
  futures.push_back(async(other_, thrower));
  when_any_result<int> r = when_any(std::move(futures)).get();
  EXPECT_EQ(r.index, 1U);
  EXPECT_THROW((void)r.futures[1].get(), remote_error);
  gate_.set(0);
}

TEST_F(combining, any_in_a_loop_takes_each_once) {
  std::vector<future<int>> futures;
  for (int i = 0; i < 200; ++i)
    futures.push_back(async(i % 2 == 0 ? target_ : other_, twice, i));
  int sum = 0;
  while (!futures.empty()) {
    when_any_result<int> r = when_any(std::move(futures)).get();
    sum += r.futures[r.index].get();
    futures = std::move(r.futures);
    futures.erase(futures.begin() + static_cast<std::ptrdiff_t>(r.index));
  }
  EXPECT_EQ(sum, 39'800);
}

TEST_F(combining, some_gives_the_ready_ones_and_the_others) {
  std::vector<future<int>> futures;
  futures.push_back(held(2, 10));
  futures.push_back(held(1, 11));
  futures.push_back(held(3, 12));
  futures.push_back(async(other_, twice, 4));
  future<when_some_result<int>> two = when_some(2, std::move(futures));
  EXPECT_FALSE(two.wait_for(milliseconds(20)));
  // Calls of one lane end in order, so the first delays the second.
  gate_.set(1);
  EXPECT_FALSE(two.wait_for(milliseconds(20)));
  gate_.set(2);
  when_some_result<int> r = two.get();
  EXPECT_THAT(r.indices, ElementsAre(3, 0));
  ASSERT_EQ(r.futures.size(), 4U);
  EXPECT_EQ(r.futures[3].get(), 8);
  EXPECT_EQ(r.futures[0].get(), 10);
  // The others can be waited for again.
  r.futures.erase(r.futures.begin() + 3);
  r.futures.erase(r.futures.begin());
  future<when_some_result<int>> rest = when_some(2, std::move(r.futures));
  EXPECT_FALSE(rest.test());
  gate_.set(3);
  r = rest.get();
  EXPECT_THAT(r.indices, ElementsAre(0, 1));
  EXPECT_EQ(r.futures[0].get() + r.futures[1].get(), 23);
}

TEST_F(combining, some_of_ready_ones_is_ready) {
  std::vector<future<int>> futures;
  futures.push_back(held(0, 1));
  futures.push_back(make_ready_future(2));
  futures.push_back(make_ready_future(3));
  when_some_result<int> none = when_some(0, std::move(futures)).get();
  EXPECT_TRUE(none.indices.empty());
  future<when_some_result<int>> two = when_some(2, std::move(none.futures));
  ASSERT_TRUE(two.test());
  EXPECT_THAT(two.get().indices, ElementsAre(1, 2));
  EXPECT_TRUE(when_some(0, std::vector<future<int>>()).get().futures.empty());
  gate_.set(0);
}

TEST_F(combining, some_that_fail_count_as_ready) {
  std::vector<future<int>> futures;
  futures.push_back(held(0, 1));
  futures.push_back(async(other_, thrower));
  when_some_result<int> r = when_some(1, std::move(futures)).get();
  EXPECT_THAT(r.indices, ElementsAre(1));
  EXPECT_THROW((void)r.futures[1].get(), remote_error);
  gate_.set(0);
}

TEST_F(combining, some_of_too_few_is_refused) {
  std::vector<future<int>> futures;
  futures.push_back(make_ready_future(1));
  EXPECT_THROW((void)when_some(2, std::move(futures)), error);
  EXPECT_THROW((void)when_some(1, std::vector<future<int>>(1)), error);
}

TEST_F(combining, some_races_between_threads) {
  // Different threads keep the promises while this one combines.
  for (int round = 0; round < 300; ++round) {
    std::vector<promise<int>> promises(6);
    std::vector<future<int>> futures;
    for (auto& p : promises)
      futures.push_back(p.get_future());
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&promises, t] {
        promises[2 * t].set_value(1);
        promises[2 * t + 1].set_value(1);
      });
    }
    when_some_result<int> four = when_some(4, std::move(futures)).get();
    ASSERT_EQ(std::set(four.indices.begin(), four.indices.end()).size(), 4U);
    for (const std::size_t i : four.indices)
      ASSERT_TRUE(four.futures[i].test());
    int sum = 0;
    for (const int one : when_all_values(std::move(four.futures)).get())
      sum += one;
    ASSERT_EQ(sum, 6);
  }
}

TEST_F(combining, values_of_different_types) {
  auto all = when_all_values(async(target_, twice, 2), async(target_, [] {}),
                             async(other_, text, 1), make_ready_future(std::make_unique<int>(3)));
  static_assert(
      std::is_same_v<decltype(all), future<std::tuple<int, std::string, std::unique_ptr<int>>>>);
  auto [number, word, pointer] = all.get();
  EXPECT_EQ(number, 4);
  EXPECT_EQ(word, text(1));
  EXPECT_EQ(*pointer, 3);
  const std::tuple<> none = when_all_values().get();
  EXPECT_EQ(none, when_all_values(async(target_, [] {}), make_ready_future()).get());
}

TEST_F(combining, values_of_a_vector) {
  std::vector<future<int>> futures;
  for (int i = 0; i < 10'000; ++i)
    futures.push_back(async(i % 2 == 0 ? target_ : other_, twice, i));
  const std::vector<int> values = when_all_values(std::move(futures)).get();
  ASSERT_EQ(values.size(), 10'000U);
  for (int i = 0; i < 10'000; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(i)], 2 * i);
  EXPECT_TRUE(when_all_values(std::vector<future<int>>()).get().empty());
  std::vector<future<bool>> bits;
  bits.push_back(make_ready_future(true));
  EXPECT_THAT(when_all_values(std::move(bits)).get(), ElementsAre(true));
}

TEST_F(combining, values_of_nothing_wait_for_all) {
  std::vector<future<void>> futures;
  futures.push_back(held(0, 1).then([](future<int>) {}));
  futures.push_back(make_ready_future());
  future<void> all = when_all_values(std::move(futures));
  EXPECT_FALSE(all.wait_for(milliseconds(20)));
  gate_.set(0);
  all.get();
  when_all_values(std::vector<future<void>>()).get();
}

TEST_F(combining, values_fail_at_once_with_the_first_failure) {
  std::vector<future<int>> futures;
  futures.push_back(held(0, 1));
  futures.push_back(async(other_, thrower));
  future<std::vector<int>> all = when_all_values(std::move(futures));
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)all.get(); }), HasSubstr("one of many"));
  auto both = when_all_values(held(0, 1), async(other_, thrower), async(other_, thrower));
  EXPECT_THROW((void)both.get(), remote_error);
  // The held calls go on, and their results are dropped.
  EXPECT_EQ(gate_.get(0), 0U);
  gate_.set(0);
  EXPECT_EQ(sync(target_, twice, 1), 2);
}

TEST_F(combining, values_may_be_dropped) {
  (void)when_all_values(held(0, 1), held(0, 2));
  std::vector<future<int>> more;
  more.push_back(held(0, 1));
  more.push_back(async(other_, thrower));
  (void)when_all_values(std::move(more));
  gate_.set(0);
  EXPECT_EQ(sync(target_, twice, 1), 2);
}

TEST_F(combining, values_race_between_threads) {
  for (int round = 0; round < 300; ++round) {
    std::vector<promise<int>> promises(6);
    std::vector<future<int>> futures;
    for (auto& p : promises)
      futures.push_back(p.get_future());
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&promises, t, fails = round % 2 == 0] {
        promises[2 * t].set_value(1);
        if (fails) {
          promises[2 * t + 1].set_exception(std::make_exception_ptr(std::out_of_range("one")));
        } else {
          promises[2 * t + 1].set_value(1);
        }
      });
    }
    future<std::vector<int>> all = when_all_values(std::move(futures));
    if (round % 2 == 0) {
      ASSERT_THROW((void)all.get(), std::out_of_range);
    } else {
      ASSERT_EQ(all.get().size(), 6U);
    }
  }
}

TEST_F(combining, a_hundred_thousand_in_little_stack) {
  constexpr std::size_t many = 100'000;
  promise<int> first;
  const shared_future<int> start = first.get_future().share();
  std::vector<future<int>> wide;
  for (std::size_t i = 0; i < many; ++i)
    wide.push_back(start.then([](const shared_future<int>& f) { return f.get(); }));
  future<std::vector<int>> all = when_all_values(std::move(wide));
  // Each continuation completes the next.
  future<int> last = start.then([](const shared_future<int>& f) { return f.get(); });
  for (std::size_t i = 0; i < many; ++i) {
    std::vector<future<int>> one;
    one.push_back(std::move(last));
    last = when_all_values(std::move(one)).then([](auto f) { return f.get().at(0); });
    one.clear();
    one.push_back(std::move(last));
    last = when_some(1, std::move(one)).then([](auto f) { return f.get().futures.at(0).get(); });
  }
  first.set_value(1);
  EXPECT_EQ(all.get().size(), many);
  EXPECT_EQ(last.get(), 1);
}

TEST(combining_at_the_end, futures_end_with_their_job) {
  future<std::vector<int>> all;
  future<when_some_result<int>> some;
  {
    job j(with_targets("shm"));
    const node target = j.targets().front();
    const auto calls = [&] {
      std::vector<future<int>> made;
      for (int i = 0; i < 3; ++i) {
        made.push_back(async(target, [] {
          std::this_thread::sleep_for(std::chrono::hours(1));
          return 1;
        }));
      }
      return made;
    };
    all = when_all_values(calls());
    some = when_some(2, calls());
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
  }
  EXPECT_THROW((void)all.get(), node_failed);
  when_some_result<int> r = some.get();
  EXPECT_THROW((void)r.futures[r.indices[0]].get(), node_failed);
}

/// Each future has its own deadline, and the gate opens only at the end.
class combining_with_deadlines : public combining {
 protected:
  future<int> hangs(const timed_node& where) {
    return async(
        where,
        [](handshake::words words) {
          return static_cast<int>(handshake::wait(words.local(), 0, 1));
        },
        gate_.span());
  }
  future<int> hangs_until_late() { return hangs(target_.within(std::chrono::milliseconds(30))); }
  future<int> hangs() { return hangs(target_.within(std::chrono::hours::max())); }
};

TEST_F(combining_with_deadlines, all_are_ready_once_each_is_ready_or_late) {
  auto all = when_all(hangs_until_late(), async(other_, [] { return 1; }));
  ASSERT_TRUE(all.wait_for(wait_limit));
  auto [late, ready] = all.get();
  EXPECT_THROW((void)late.get(), timeout);
  EXPECT_EQ(ready.get(), 1);
  gate_.set(0);
  EXPECT_EQ(late.within(wait_limit).get(), 1) << "nothing is attached to it any more";
}

TEST_F(combining_with_deadlines, all_wait_for_those_without) {
  std::vector<future<int>> some;
  some.push_back(hangs_until_late());
  some.push_back(async(other_, [] { return 1; }));
  some.push_back(hangs());
  auto all = when_all(std::move(some));
  EXPECT_FALSE(all.wait_for(std::chrono::milliseconds(50)));
  gate_.set(0);
  ASSERT_TRUE(all.wait_for(wait_limit));
  std::vector<future<int>> ready = all.get();
  EXPECT_EQ(ready[1].get(), 1);
  EXPECT_EQ(ready[2].get(), 1);
}

TEST_F(combining_with_deadlines, all_in_time_are_ready) {
  auto all = when_all(hangs(target_.within(wait_limit)), hangs(target_.within(wait_limit)));
  gate_.set(0);
  auto [a, b] = all.get();
  EXPECT_EQ(a.get() + b.get(), 2);
}

TEST_F(combining_with_deadlines, a_late_one_is_any) {
  std::vector<future<int>> some;
  some.push_back(hangs());
  some.push_back(hangs_until_late());
  auto any = when_any(std::move(some));
  ASSERT_TRUE(any.wait_for(wait_limit));
  when_any_result<int> result = any.get();
  EXPECT_EQ(result.index, 1U);
  EXPECT_THROW((void)result.futures[1].get(), timeout);
  // All can be waited for again.
  auto both = when_all(std::move(result.futures[0]), result.futures[1].within(wait_limit));
  gate_.set(0);
  auto [a, b] = both.get();
  EXPECT_EQ(a.get() + b.get(), 2);
}

TEST_F(combining_with_deadlines, any_in_time_leaves_the_others) {
  std::vector<future<int>> some;
  some.push_back(hangs(target_.within(wait_limit)));
  some.push_back(async(other_.within(wait_limit), [] { return 5; }));
  when_any_result<int> result = when_any(std::move(some)).get();
  EXPECT_EQ(result.index, 1U);
  EXPECT_EQ(result.futures[1].get(), 5);
  gate_.set(0);
  EXPECT_EQ(result.futures[0].get(), 1);
}

TEST_F(combining_with_deadlines, some_count_late_ones) {
  std::vector<future<int>> some;
  some.push_back(hangs_until_late());
  some.push_back(hangs());
  some.push_back(hangs_until_late());
  when_some_result<int> result = when_some(2, std::move(some)).within(wait_limit).get();
  EXPECT_EQ(result.indices.size(), 2U);
  EXPECT_THAT(result.indices, testing::UnorderedElementsAre(0U, 2U));
  gate_.set(0);
  EXPECT_EQ(result.futures[1].get(), 1);
}

TEST_F(combining_with_deadlines, values_fail_with_the_first_late_one) {
  auto values = when_all_values(hangs_until_late(), hangs(), make_ready_future());
  EXPECT_TRUE(values.wait_for(wait_limit));
  EXPECT_THROW((void)values.get(), timeout);
  std::vector<future<int>> some;
  some.push_back(hangs());
  some.push_back(hangs_until_late());
  EXPECT_THROW((void)when_all_values(std::move(some)).within(wait_limit).get(), timeout);
  auto in_time = when_all_values(hangs(target_.within(wait_limit)));
  gate_.set(0);
  EXPECT_EQ(std::get<0>(in_time.get()), 1);
}

TEST_F(combining_with_deadlines, go_on_although_nobody_waits) {
  std::atomic<bool> is_late{false};
  const future<void> ends =
      when_all(hangs_until_late()).then([&](future<std::tuple<future<int>>> ready) {
        auto [late] = ready.get();
        EXPECT_THROW((void)late.get(), timeout);
        is_late = true;
      });
  EXPECT_TRUE(eventually([&] { return is_late.load(); }));
  gate_.set(0);
}

TEST_F(combining_with_deadlines, a_result_or_a_deadline_never_both) {
  for (int i = 0; i < 500; ++i) {
    const std::chrono::microseconds brief(i % 50 * 10);
    std::vector<future<int>> some;
    some.push_back(async(target_.within(brief), twice, 2));
    some.push_back(async(other_.within(brief), twice, 2));
    std::vector<future<int>> all =
        i % 2 == 0 ? when_any(std::move(some)).get().futures : when_all(std::move(some)).get();
    for (future<int>& f : all)
      EXPECT_EQ(f.within(wait_limit).get(), 4);
  }
}

TEST_F(combining, any_of_none_is_refused) {
  EXPECT_THROW((void)when_any(std::vector<future<int>>{}), error);
}

TEST_F(combining, empty_futures_are_refused) {
  EXPECT_THROW((void)when_all(future<int>{}), error);
  EXPECT_THROW((void)when_all_values(future<int>{}), error);
  EXPECT_THROW((void)when_all_values(std::vector<future<int>>(2)), error);
  std::vector<future<int>> futures(2);
  EXPECT_THROW((void)when_all(std::move(futures)), error);
  std::vector<future<int>> more;
  more.push_back(make_ready_future(1));
  more.emplace_back();
  EXPECT_THROW((void)when_any(std::move(more)), error);
}

TEST_F(combining, waited_for_by_another_thread) {
  auto all = when_all(held(0, 1), async(other_, twice, 2));
  int got = 0;
  std::thread waiting([&] {
    auto [a, b] = all.get();
    got = a.get() + b.get();
  });
  std::this_thread::sleep_for(milliseconds(20));
  gate_.set(0);
  waiting.join();
  EXPECT_EQ(got, 5);
}

TEST_F(combining, races_between_threads) {
  // The futures' lanes belong to different threads, which take replies while others combine.
  for (int round = 0; round < 50; ++round) {
    std::vector<future<int>> futures(8);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        futures[static_cast<std::size_t>(t)] = async(t % 2 == 0 ? target_ : other_, twice, t);
      });
    }
    for (auto& t : threads)
      t.join();
    when_any_result<int> first = when_any(std::move(futures)).get();
    int sum = 0;
    for (auto& f : when_all(std::move(first.futures)).get())
      sum += f.get();
    ASSERT_EQ(sum, 56);
  }
}

TEST_F(combining, futures_of_two_jobs_are_refused) {
  job second(with_targets("shm"));
  EXPECT_THROW((void)when_all(async(target_, twice, 1), async(second.targets().front(), twice, 2)),
               error);
  EXPECT_THROW(
      (void)when_all_values(async(target_, twice, 1), async(second.targets().front(), twice, 2)),
      error);
  std::vector<future<int>> mixed;
  mixed.push_back(async(target_, twice, 1));
  mixed.push_back(async(second.targets().front(), twice, 2));
  EXPECT_THROW((void)when_any(std::move(mixed)), error);
}

} // namespace
} // namespace farcall::test::combine_test
