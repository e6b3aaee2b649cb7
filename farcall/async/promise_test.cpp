// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/async/promise.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall::test::promise_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// ---- without a job ------------------------------------------------------------------------------

TEST(promises, give_their_value_to_the_future) {
  promise<std::string> p;
  future<std::string> f = p.get_future();
  EXPECT_TRUE(f.valid());
  EXPECT_FALSE(f.test());
  EXPECT_FALSE(f.wait_for(milliseconds(1)));
  p.set_value("given");
  EXPECT_TRUE(f.test());
  EXPECT_EQ(f.get(), "given");
}

TEST(promises, may_give_before_the_future_is_taken) {
  promise<std::unique_ptr<int>> p;
  p.set_value(std::make_unique<int>(4));
  EXPECT_EQ(*p.get_future().get(), 4);
}

TEST(promises, hold_bitwise_types_that_only_move) {
  struct token {
    explicit token(int v) : value(v) {}
    token(token&&) = default;
    token& operator=(token&&) = default;
    token(const token&) = delete;
    token& operator=(const token&) = delete;
    ~token() = default;
    int value;
  };
  static_assert(std::is_trivially_copyable_v<token>);
  promise<token> p;
  future<token> f = p.get_future();
  p.set_value(token(3));
  EXPECT_EQ(f.get().value, 3);
}

TEST(promises, of_nothing) {
  promise<void> p;
  future<void> f = p.get_future();
  p.set_value();
  f.get();
}

TEST(promises, give_exceptions) {
  promise<int> p;
  future<int> f = p.get_future();
  p.set_exception(std::make_exception_ptr(std::out_of_range("given")));
  EXPECT_THROW((void)f.get(), std::out_of_range);
}

TEST(promises, take_no_null_for_an_exception) {
  promise<int> p;
  future<int> f = p.get_future();
  EXPECT_THROW(p.set_exception(nullptr), error);
  p.set_value(1);
  EXPECT_EQ(f.get(), 1);
}

TEST(promises, are_used_once) {
  promise<int> p;
  (void)p.get_future();
  EXPECT_THAT(text_thrown_by<error>([&] { (void)p.get_future(); }), HasSubstr("taken before"));
  p.set_value(1);
  EXPECT_THAT(text_thrown_by<error>([&] { p.set_value(2); }), HasSubstr("before"));
  EXPECT_THROW(p.set_exception(std::make_exception_ptr(1)), error);
}

TEST(promises, that_go_without_a_value_end_their_future) {
  future<int> f;
  {
    promise<int> p;
    f = p.get_future();
    const promise<int> never_asked_for;
  }
  EXPECT_THAT(text_thrown_by<error>([&] { (void)f.get(); }), HasSubstr("without giving a value"));
}

TEST(promises, can_be_moved) {
  promise<int> p;
  future<int> f = p.get_future();
  promise<int> q = std::move(p);
  // NOLINTNEXTLINE(bugprone-use-after-move): what is left is what is tested
  EXPECT_THROW(p.set_value(1), error);
  p = std::move(q);
  p.set_value(3);
  EXPECT_EQ(f.get(), 3);
}

TEST(promises, are_waited_for_inside_a_continuation_without_a_job) {
  promise<int> first;
  int got = 0;
  future<void> done = first.get_future().then([&](future<int> f) {
    promise<int> second;
    future<int> after = second.get_future().then([](future<int> g) { return g.get() + 1; });
    // The continuation is queued after this one on this thread.
    second.set_value(f.get());
    ASSERT_TRUE(after.wait_for(seconds(60)));
    got = after.get();
  });
  first.set_value(1);
  done.get();
  EXPECT_EQ(got, 2);
}

TEST(promises, wake_threads_that_wait) {
  promise<int> p;
  future<int> f = p.get_future();
  std::thread giving([&] {
    std::this_thread::sleep_for(milliseconds(20));
    p.set_value(5);
  });
  EXPECT_EQ(f.get(), 5);
  giving.join();
}

TEST(promises, run_what_follows) {
  promise<int> p;
  future<int> f = p.get_future().then([](future<int> g) { return g.get() + 1; });
  p.set_value(6);
  EXPECT_EQ(f.get(), 7);
}

// ---- with a job ---------------------------------------------------------------------------------

class promises_of_jobs : public two_targets_test {};

TEST_F(promises_of_jobs, wake_threads_that_wait) {
  promise<int> p;
  future<int> f = p.get_future();
  std::thread giving([&] {
    std::this_thread::sleep_for(milliseconds(20));
    p.set_value(5);
  });
  ASSERT_TRUE(f.wait_for(seconds(60)));
  EXPECT_EQ(f.get(), 5);
  giving.join();
}

TEST_F(promises_of_jobs, outlive_the_job) {
  promise<int> p;
  future<int> f = p.get_future();
  {
    const job another(with_targets("shm"));
    EXPECT_THROW((void)f.wait_for(milliseconds(1)), error) << "two jobs";
  }
  EXPECT_FALSE(f.wait_for(milliseconds(1)));
  p.set_value(4);
  EXPECT_EQ(f.get(), 4);
}

TEST_F(promises_of_jobs, go_together_with_calls) {
  promise<int> p;
  auto both = when_all(p.get_future(), async(target_, [] { return 2; }));
  p.set_value(1);
  auto [first, second] = both.get();
  EXPECT_EQ(first.get() + second.get(), 3);
}

promise<int>* held = nullptr;

TEST_F(promises_of_jobs, give_what_handlers_return) {
  future<int> f = async(target_, [] {
    held = new promise<int>;
    return held->get_future();
  });
  EXPECT_FALSE(f.wait_for(milliseconds(1)));
  sync(target_, [] {
    held->set_value(8);
    delete held;
  });
  EXPECT_EQ(f.get(), 8);
}

} // namespace
} // namespace farcall::test::promise_test
