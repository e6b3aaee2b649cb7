// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/sender.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <sys/types.h>

namespace farcall::test::sender_test {
namespace {

/// Completion that a receiver got.
template <class T>
struct told {
  std::optional<T> value;
  std::exception_ptr failure;
  std::atomic<int> completions{0};
};

template <class T>
struct receiver {

  told<T>* to;

  void set_value(T value) && noexcept {
    to->value = std::move(value);
    ++to->completions;
  }
  void set_error(std::exception_ptr why) && noexcept {
    to->failure = std::move(why);
    ++to->completions;
  }
};

struct receiver_of_nothing {

  int* completions;
  void set_value() && noexcept { ++*completions; }
  void set_error(std::exception_ptr /*why*/) && noexcept { *completions = -1; }
};

TEST(senders, complete_with_the_value) {
  promise<std::unique_ptr<int>> p;
  told<std::unique_ptr<int>> t;
  auto operation = as_sender(p.get_future()).connect(receiver<std::unique_ptr<int>>{&t});
  operation.start();
  EXPECT_EQ(t.completions, 0);
  p.set_value(std::make_unique<int>(4));
  ASSERT_EQ(t.completions, 1);
  EXPECT_EQ(**t.value, 4);
}

TEST(senders, complete_at_the_deadline) {
  promise<std::unique_ptr<int>> p;
  told<std::unique_ptr<int>> t;
  auto operation = as_sender(p.get_future().within(std::chrono::milliseconds(30)))
                       .connect(receiver<std::unique_ptr<int>>{&t});
  operation.start();
  EXPECT_TRUE(eventually([&] { return t.completions == 1; }));
  EXPECT_THROW(std::rethrow_exception(t.failure), timeout);
  p.set_value(std::make_unique<int>(4));
  EXPECT_EQ(t.completions, 1);

  promise<std::unique_ptr<int>> in_time;
  told<std::unique_ptr<int>> told_in_time;
  auto other = as_sender(in_time.get_future().within(wait_limit))
                   .connect(receiver<std::unique_ptr<int>>{&told_in_time});
  other.start();
  in_time.set_value(std::make_unique<int>(5));
  ASSERT_EQ(told_in_time.completions, 1);
  EXPECT_EQ(**told_in_time.value, 5);
}

TEST(senders, do_nothing_before_they_are_started) {
  told<int> t;
  auto operation = as_sender(make_ready_future(1)).connect(receiver<int>{&t});
  EXPECT_EQ(t.completions, 0);
  operation.start();
  EXPECT_EQ(t.value, 1);
  promise<int> p;
  (void)as_sender(p.get_future());
  {
    const auto never = as_sender(make_ready_future(1)).connect(receiver<int>{&t});
  }
  p.set_value(1);
  EXPECT_EQ(t.completions, 1);
}

TEST(senders, of_nothing) {
  int completions = 0;
  auto ready = as_sender(make_ready_future()).connect(receiver_of_nothing{&completions});
  ready.start();
  EXPECT_EQ(completions, 1);
  promise<void> p;
  auto later = as_sender(p.get_future()).connect(receiver_of_nothing{&completions});
  later.start();
  p.set_value();
  EXPECT_EQ(completions, 2);
}

TEST(senders, complete_with_the_exception) {
  promise<int> p;
  told<int> t;
  auto operation = as_sender(p.get_future()).connect(receiver<int>{&t});
  operation.start();
  p.set_exception(std::make_exception_ptr(std::out_of_range("given")));
  ASSERT_EQ(t.completions, 1);
  EXPECT_FALSE(t.value);
  EXPECT_THROW(std::rethrow_exception(t.failure), std::out_of_range);
  EXPECT_THROW((void)as_sender(future<int>()), error);
}

TEST(senders, race_between_threads) {
  for (int round = 0; round < 300; ++round) {
    promise<int> p;
    told<int> t;
    auto operation = as_sender(p.get_future()).connect(receiver<int>{&t});
    std::jthread giving([&] { p.set_value(3); });
    operation.start();
    giving.join();
    ASSERT_EQ(t.completions, 1);
    ASSERT_EQ(t.value, 3);
  }
}

/// Starts the next operation when it is completed.
struct starts_next {

  using operation = future_operation<int, starts_next>;
  std::deque<operation>* all;
  std::size_t index;
  void set_value(int /*value*/) && noexcept {
    if (index + 1 < all->size()) (*all)[index + 1].start();
  }
  void set_error(std::exception_ptr /*why*/) && noexcept { std::terminate(); }
};

TEST(senders, start_a_hundred_thousand_in_little_stack) {
  constexpr std::size_t many = 100'000;
  std::deque<starts_next::operation> all;
  for (std::size_t i = 0; i + 1 < many; ++i)
    all.emplace_back(make_ready_future(1), starts_next{&all, i});
  promise<int> p;
  all.emplace_back(p.get_future(), starts_next{&all, many - 1});
  all.front().start();
  p.set_value(1);
  EXPECT_EQ(all.size(), many);
}

TEST(senders, of_calls) {
  told<int> good;
  told<int> bad;
  told<int> failed;
  std::optional<future_operation<int, receiver<int>>> at_the_end;
  {
    job j(with_targets("shm"));
    const node target = j.targets().front();
    auto first = as_sender(async(target, [] { return 4; })).connect(receiver<int>{&good});
    auto second = as_sender(async(target, []() -> int {
                    throw std::logic_error("there");
                  })).connect(receiver<int>{&bad});
    first.start();
    second.start();
    const auto end = std::chrono::steady_clock::now() + wait_limit;
    while ((good.completions == 0 || bad.completions == 0) &&
           std::chrono::steady_clock::now() < end)
      j.progress();
    at_the_end.emplace(async(target,
                             [] {
                               std::this_thread::sleep_for(std::chrono::hours(1));
                               return 1;
                             }),
                       receiver<int>{&failed});
    at_the_end->start();
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
  }
  EXPECT_EQ(good.value, 4);
  ASSERT_TRUE(bad.failure);
  EXPECT_THROW(std::rethrow_exception(bad.failure), remote_error);
  ASSERT_EQ(failed.completions, 1);
  EXPECT_THROW(std::rethrow_exception(failed.failure), node_failed);
}

} // namespace
} // namespace farcall::test::sender_test
