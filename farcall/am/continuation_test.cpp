// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion.hpp>
#include <farcall/am/completion_thread.hpp>
#include <farcall/am/continuation.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::continuation_test {
namespace {

using namespace am;

/// Runs once and destroys itself.
class task final : public continuation {
 public:
  explicit task(std::function<void()> what) : what_(std::move(what)) {}
  void run() noexcept override {
    what_();
    delete this;
  }

 private:
  std::function<void()> what_;
};

continuation_list list_of(std::vector<std::function<void()>> all) {
  continuation_list list;
  for (auto& what : all)
    list.push_back(*new task(std::move(what)));
  return list;
}

TEST(continuations, run_in_order) {
  std::vector<int> order;
  continuation_list first = list_of({[&] { order.push_back(1); }, [&] { order.push_back(2); }});
  continuation_list second = list_of({[&] { order.push_back(3); }});
  first.append(second);
  EXPECT_TRUE(second.is_empty());
  run_continuations(first);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(continuations, run_after_the_continuation_that_queued_them) {
  std::vector<int> order;
  run_continuations(list_of({[&] {
                               run_continuations(list_of({[&] { order.push_back(3); }}));
                               order.push_back(1);
                             },
                             [&] { order.push_back(2); }}));
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_FALSE(has_queued_continuations());
}

TEST(continuations, chains_take_constant_stack) {
  constexpr int rounds = 1'000'000;
  int ran = 0;
  std::function<void()> next = [&] {
    if (++ran < rounds) run_continuations(list_of({next}));
  };
  run_continuations(list_of({next}));
  EXPECT_EQ(ran, rounds);
}

TEST(continuations, run_before_the_wait_inside_one_ends) {
  std::vector<int> order;
  run_continuations(list_of({[&] {
                               EXPECT_TRUE(has_queued_continuations());
                               run_queued_continuations();
                               order.push_back(2);
                             },
                             [&] { order.push_back(1); }}));
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(continuations, are_taken_back_while_they_are_queued) {
  bool ran = false;
  auto* const second = new task([&] { ran = true; });
  continuation_list due = list_of({[&] {
    EXPECT_TRUE(take_back(*second));
    EXPECT_FALSE(take_back(*second));
    delete second;
  }});
  due.push_back(*second);
  run_continuations(due);
  EXPECT_FALSE(ran);
}

TEST(continuations, are_taken_out_of_any_place_of_a_list) {
  for (int out = 0; out < 3; ++out) {
    std::vector<int> order;
    std::vector<task*> all;
    continuation_list list;
    for (int i = 0; i < 3; ++i) {
      all.push_back(new task([&order, i] { order.push_back(i); }));
      list.push_back(*all.back());
    }
    EXPECT_TRUE(list.remove(*all[static_cast<std::size_t>(out)]));
    delete all[static_cast<std::size_t>(out)];
    list.push_back(*new task([&order] { order.push_back(3); }));
    run_continuations(list);
    EXPECT_EQ(order.size(), 3U);
    EXPECT_EQ(order.back(), 3);
  }
}

TEST(continuations, run_elsewhere_for_threads_that_others_depend_on) {
  doorbell wakes;
  completion_thread elsewhere(wakes);
  std::atomic<std::thread::id> ran_on;
  {
    const continuations_elsewhere moved(elsewhere);
    run_continuations(list_of({[&] { ran_on = std::this_thread::get_id(); }}));
  }
  elsewhere.stop();
  EXPECT_NE(ran_on.load(), std::this_thread::get_id());
  EXPECT_NE(ran_on.load(), std::thread::id());
}

TEST(continuations, run_at_once_without_a_completion_thread) {
  doorbell wakes;
  completion_thread elsewhere(wakes);
  elsewhere.stop();
  bool ran = false;
  elsewhere.take(list_of({[&] { ran = true; }}));
  EXPECT_TRUE(ran);
}

TEST(continuations, run_on_threads_that_wait_for_them_too) {
  doorbell wakes;
  completion_thread elsewhere(wakes);
  std::atomic<bool> first_runs{false};
  std::atomic<bool> second_ran{false};
  elsewhere.take(list_of({[&] {
    first_runs = true;
    while (!second_ran)
      std::this_thread::yield();
  }}));
  while (!first_runs)
    std::this_thread::yield();
  EXPECT_FALSE(elsewhere.has_due());
  elsewhere.take(list_of({[&] { second_ran = true; }}));
  EXPECT_TRUE(elsewhere.has_due()) << "the thread is kept by the first";
  run_continuations(elsewhere.give_due());
  EXPECT_FALSE(elsewhere.has_due());
  elsewhere.stop();
}

} // namespace
} // namespace farcall::test::continuation_test
