// SPDX-License-Identifier: Apache-2.0

// Handlers whose result comes later: they return a future or a task, or take a reply.

#include <farcall/async/call.hpp>
#include <farcall/async/task.hpp>
#include <farcall/call/reply.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::later_results_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class later_results : public two_targets_test {
 protected:
  /// Returns the text of the exception that a call throws.
  template <class F, class... A>
  std::string failure_of(F f, A... args) {
    return text_thrown_by<remote_error>([&] { (void)sync(target_, f, args...); });
  }
};

int twice(int v) { return 2 * v; }

// ---- futures ------------------------------------------------------------------------------------

future<int> twice_elsewhere(const node& there, int v) { return async(there, twice, v); }
future<std::string> text_at_once(int v) { return make_ready_future(std::to_string(v)); }
future<void> nothing_elsewhere(const node& there) {
  return async(there, [] {});
}

TEST_F(later_results, given_by_futures) {
  static_assert(std::is_same_v<decltype(sync(target_, twice_elsewhere, other_, 4)), int>);
  EXPECT_EQ(sync(target_, twice_elsewhere, other_, 4), 8);
  EXPECT_EQ(sync(target_, fn<&twice_elsewhere>, job_.host(), 5), 10);
  EXPECT_EQ(sync(target_, twice_elsewhere, target_, 6), 12);
  EXPECT_EQ(sync(job_.host(), twice_elsewhere, target_, 7), 14);
  EXPECT_EQ(sync(target_, text_at_once, 12), "12");
  sync(target_, nothing_elsewhere, other_);
  const auto lambda = [](const node& there, int v) { return async(there, twice, v); };
  EXPECT_EQ(sync(target_, lambda, other_, 8), 16);
}

TEST_F(later_results, are_large_too) {
  const auto much = [](const node& there) {
    return async(there, [] { return std::string(3'000'000, 'm'); });
  };
  EXPECT_EQ(sync(target_, much, other_), std::string(3'000'000, 'm'));
}

TEST_F(later_results, are_exceptions_too) {
  const auto fails = [](const node& there) {
    return async(
        there, [](int v) -> int { throw std::out_of_range("value " + std::to_string(v)); }, 3);
  };
  EXPECT_THAT(failure_of(fails, other_), HasSubstr("value 3"));
  EXPECT_THAT(failure_of([] { return future<int>(); }), HasSubstr("empty future"));
  EXPECT_THAT(
      failure_of(
          [](int v) -> future<int> { throw std::runtime_error("at once " + std::to_string(v)); },
          4),
      HasSubstr("at once 4"));
}

std::vector<std::pair<reply<int>, int>> replies_to_come;

TEST_F(later_results, take_no_thread_while_they_are_not_there) {
  // More handlers than could wait on stacks; a worker is one thread.
  constexpr int count = 20'000;
  const auto held = [](const node& there, int v) {
    return async(
        there,
        [](reply<int> to, int number) { replies_to_come.emplace_back(std::move(to), number); }, v);
  };
  std::vector<future<int>> all;
  all.reserve(count);
  for (int i = 0; i < count; ++i)
    all.push_back(async(target_, held, other_, i));
  EXPECT_EQ(sync(target_, twice, 1), 2) << "the worker is free";
  while (sync(other_, [] { return replies_to_come.size(); }) != std::size_t{count}) {
  }
  sync(other_, [] {
    for (auto& [to, number] : replies_to_come)
      to.set_value(number);
    replies_to_come.clear();
  });
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(all[static_cast<std::size_t>(i)].wait_for(seconds(60)));
    ASSERT_EQ(all[static_cast<std::size_t>(i)].get(), i);
  }
}

TEST_F(later_results, dropped_for_posted_calls) {
  for (int i = 0; i < 100; ++i)
    post(target_, twice_elsewhere, other_, i);
  EXPECT_EQ(sync(target_, twice_elsewhere, other_, 4), 8);
}

TEST_F(later_results, end_with_the_node_that_they_depend_on) {
  future<void> f =
      async(target_, [](const node& there) { return async(there, [] { ::_exit(1); }); }, other_);
  ASSERT_TRUE(f.wait_for(seconds(60)));
  EXPECT_THAT(text_thrown_by<remote_error>([&] { f.get(); }), HasSubstr("node 2"));
}

future<int> steps(node there, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += co_await async(there, twice, i);
  co_return sum;
}

TEST_F(later_results, given_by_coroutines) {
  EXPECT_EQ(sync(target_, steps, other_, 100), 9900);
  EXPECT_EQ(sync(target_, steps, job_.host(), 100), 9900);
  EXPECT_EQ(sync(target_, steps, target_, 100), 9900);
}

// ---- tasks --------------------------------------------------------------------------------------

task<int> nothing_to_wait_for(int left);
task<int> part(node there, int v) { co_return co_await async(there, twice, v) + 1; }
task<int> whole(node there, int v) {
  const int first = co_await part(there, v);
  co_return first + co_await part(there, first);
}
task<void> fails_inside(node there) {
  (void)co_await part(there, 1);
  throw std::runtime_error("inside a task");
}

TEST_F(later_results, given_by_tasks) {
  static_assert(std::is_same_v<decltype(sync(target_, whole, other_, 4)), int>);
  EXPECT_EQ(sync(target_, whole, other_, 1), 3 + 7);
  EXPECT_THAT(failure_of(fails_inside, other_), HasSubstr("inside a task"));
  EXPECT_EQ(start(whole(target_, 1)).get(), 10) << "here";
  {
    const task<int> never = whole(target_, 1);
  }
}

future<int> result_of(task<int> t) { co_return co_await std::move(t); }

TEST_F(later_results, are_errors_for_tasks_that_were_moved_from) {
  task<int> from = whole(target_, 1);
  const task<int> to = std::move(from);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  EXPECT_THAT(text_thrown_by<error>([&] { (void)result_of(std::move(from)).get(); }),
              HasSubstr("this task is empty"));
  EXPECT_THROW((void)start(std::move(from)).get(), error);
  EXPECT_THROW((void)start(std::move(from).within(seconds(60))).get(), error);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_THAT(text_thrown_by<error>([&] {
                (void)[](task<int> t)->future<int> {
                  (void)co_await std::move(t);
                  co_return co_await std::move(t); // NOLINT(bugprone-use-after-move)
                }
                (whole(target_, 1)).get();
              }),
              HasSubstr("awaited before"));
  EXPECT_THAT(failure_of([] {
                task<int> given = nothing_to_wait_for(0);
                const task<int> kept_here = std::move(given);
                return given; // NOLINT(bugprone-use-after-move)
              }),
              HasSubstr("this task is empty"));
}

task<int> nothing_to_wait_for(int left) {
  if (left == 0) co_return 0;
  co_return co_await nothing_to_wait_for(left - 1) + 1;
}

TEST_F(later_results, given_by_tasks_inside_tasks) {
  EXPECT_EQ(start(nothing_to_wait_for(1000)).get(), 1000);
  EXPECT_EQ(sync(target_, nothing_to_wait_for, 1000), 1000);
}

/// Resumes on a new thread, unknown to farcall.
struct somewhere_else {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const {
    std::thread([waiting] {
      std::this_thread::sleep_for(milliseconds(20));
      waiting.resume();
    }).detach();
  }
  void await_resume() const noexcept {}
};

future<int> first_something_foreign(node there) {
  co_await somewhere_else();
  co_return co_await async(there, twice, 4);
}

TEST_F(later_results, given_by_coroutines_that_first_await_foreign_types) {
  EXPECT_EQ(first_something_foreign(target_).get(), 8);
  EXPECT_EQ(sync(target_, first_something_foreign, other_), 8);
}

// ---- replies ------------------------------------------------------------------------------------

void reply_at_once(reply<int> to, int v) { to.set_value(2 * v); }
void reply_elsewhere(reply<std::string> to, const std::string& text) {
  std::thread([to = std::move(to), text]() mutable {
    std::this_thread::sleep_for(milliseconds(10));
    to.set_value(text + text);
  }).detach();
}
void reply_nothing(reply<void> to) { to.set_value(); }

std::optional<reply<int>> kept;

TEST_F(later_results, are_given_by_replies) {
  static_assert(std::is_same_v<decltype(sync(target_, reply_at_once, 4)), int>);
  EXPECT_EQ(sync(target_, reply_at_once, 4), 8);
  EXPECT_EQ(sync(target_, fn<&reply_at_once>, 5), 10);
  EXPECT_EQ(sync(job_.host(), reply_at_once, 6), 12);
  sync(target_, reply_nothing);
  const std::string text(1000, 'a');
  EXPECT_EQ(sync(target_, reply_elsewhere, text), text + text);
  const std::string much(1'000'000, 'b');
  EXPECT_EQ(sync(target_, reply_elsewhere, much), much + much);
  EXPECT_EQ(sync(target_, [](reply<int> to, int v) { to.set_value(v + 1); }, 7), 8);
}

TEST_F(later_results, are_given_in_any_order) {
  future<int> f = async(target_, [](reply<int> to) { kept.emplace(std::move(to)); });
  EXPECT_EQ(sync(target_, twice, 4), 8) << "one that came later";
  EXPECT_FALSE(f.test());
  sync(target_, [] { kept->set_value(9); });
  EXPECT_EQ(f.get(), 9);
}

TEST_F(later_results, may_be_failures) {
  EXPECT_THAT(failure_of([](reply<int> to) {
                to.set_exception(std::make_exception_ptr(std::out_of_range("given")));
              }),
              HasSubstr("given"));
  EXPECT_THAT(failure_of([](reply<int>) {}), HasSubstr("without giving it"));
  EXPECT_THAT(failure_of([](reply<int>) { throw std::out_of_range("thrown"); }),
              HasSubstr("thrown"));
  EXPECT_THAT(failure_of([](reply<int> to) {
                const reply<int> taken = std::move(to);
                throw std::out_of_range("thrown by its owner");
              }),
              HasSubstr("thrown by its owner"));
  EXPECT_THAT(failure_of([](reply<int> to) {
                try {
                  const reply<int> taken = std::move(to);
                  throw std::out_of_range("caught");
                } catch (const std::out_of_range&) {
                  sync(this_node(), fn<&reply_nothing>);
                }
              }),
              HasSubstr("without giving it"));
  const auto twice_given = [](reply<bool> to) {
    to.set_value(false);
    try {
      to.set_value(true);
    } catch (const error&) {
      return;
    }
    ::_exit(1);
  };
  EXPECT_FALSE(sync(target_, twice_given));
}

TEST_F(later_results, given_by_many_threads_on_one_lane) {
  const auto by_a_thread = [](reply<int> to, int v) {
    std::thread([to = std::move(to), v]() mutable { to.set_value(v); }).detach();
  };
  std::vector<future<int>> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back(async(target_, by_a_thread, i));
    all.push_back(async(target_, twice, i));
  }
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(2 * i)].get(), i);
    EXPECT_EQ(all[static_cast<std::size_t>(2 * i + 1)].get(), 2 * i);
  }
}

TEST_F(later_results, alternate_with_direct_results_on_one_lane) {
  const auto by_a_thread = [](reply<int> to, int v) {
    std::thread([to = std::move(to), v]() mutable { to.set_value(v); }).detach();
  };
  for (int i = 0; i < 1000; ++i) {
    future<int> later = async(target_, by_a_thread, i);
    ASSERT_EQ(sync(target_, twice, i), 2 * i);
    ASSERT_EQ(later.get(), i);
    ASSERT_EQ(sync(target_, twice, i), 2 * i);
  }
}

TEST_F(later_results, wait_while_the_ring_is_full) {
  // More than the ring of replies holds, given while they are not read.
  constexpr int count = 3000;
  std::vector<future<std::string>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(async(target_, reply_elsewhere, std::string(100, 'r')));
    if (i % 100 == 99) std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(50));
  for (auto& f : all) {
    ASSERT_TRUE(f.wait_for(seconds(60)));
    EXPECT_EQ(f.get(), std::string(200, 'r'));
  }
}

TEST(later_results_at_the_end, are_waited_for) {
  future<int> given;
  {
    const job j(with_targets("shm"));
    given = async(j.targets()[0], [](reply<int> to) {
      std::thread([to = std::move(to)]() mutable {
        std::this_thread::sleep_for(milliseconds(200));
        to.set_value(3);
      }).detach();
    });
  }
  EXPECT_EQ(given.get(), 3) << "the target ended without replying";
}

TEST(later_results_at_the_end, are_ignored_once_the_job_is_over) {
  {
    const job j(with_targets("shm"));
    future<int> dropped = async(j.host(), [](reply<int> to) { kept.emplace(std::move(to)); });
    sync(j.host(), [] {});
  }
  ASSERT_TRUE(kept.has_value());
  EXPECT_TRUE(kept->is_pending());
  kept->set_value(4);
  kept.reset();
}

} // namespace
} // namespace farcall::test::later_results_test
