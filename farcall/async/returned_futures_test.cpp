// SPDX-License-Identifier: Apache-2.0

// Deadlines of futures that a handler, or a function given to then(), returns.

#include <farcall/async/call.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/shared_future.hpp>
#include <farcall/async/stop_token.hpp>
#include <farcall/async/via.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace farcall::test::returned_futures_test {
namespace {

using ::testing::HasSubstr;

/// For deadlines that are to pass.
constexpr std::chrono::milliseconds soon{30};

std::vector<std::pair<reply<int>, call_stop_token>> kept;

void keep(reply<int> to) { kept.emplace_back(std::move(to), stop_token_of_call()); }
bool has_kept() { return !kept.empty(); }
bool all_kept_are_stopped() {
  return std::ranges::all_of(kept, [](const auto& k) { return k.second.stop_requested(); });
}
void end_kept() {
  for (auto& [to, stop] : kept)
    to.set_value(7);
  kept.clear();
}
int twice(int v) { return 2 * v; }

/// Runs functions at once.
struct same_thread {
  static void post(const std::function<void()>& f) { f(); }
} here;

class returned_futures : public two_targets_test {
 protected:
  ~returned_futures() override { sync(other_, end_kept); }

  /// Expects that `f` ends by its deadline; otherwise it would never end.
  template <class Error>
  static void expect_late(future<int> f) {
    ASSERT_TRUE(f.wait_for(wait_limit));
    EXPECT_THAT(text_thrown_by<Error>([&] { (void)f.get(); }), HasSubstr("before"));
  }
  template <class F>
  void expect_late_handler(F handler) {
    future<int> f = async(target_, handler, other_);
    ASSERT_TRUE(f.wait_for(wait_limit));
    EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)f.get(); }),
                HasSubstr("node 1 threw farcall::timeout"));
  }
  [[nodiscard]] future<int> late_future() const { return async(other_.within(soon), keep); }
};

// ---- by handlers --------------------------------------------------------------------------------

future<int> late_call(const node& there) { return async(there.within(soon), keep); }
future<int> late_then(const node& there) {
  return late_call(there).then([](future<int> f) { return f.get(); });
}
future<int> late_inside_then(node there) {
  return async(there, twice, 1).then([there](future<int>) { return late_call(there); });
}
future<int> late_via(const node& there) {
  return late_call(there).via(here).then([](future<int> f) { return f.get(); });
}
future<int> late_share(const node& there) {
  return late_call(there).share().then([](shared_future<int> f) { return f.get(); });
}
future<int> late_with_stop(const node& there) {
  static std::stop_source never;
  return stop_when(late_call(there), never.get_token());
}
future<int> late_promise(const node& /*there*/) {
  static promise<int> never;
  return never.get_future().within(soon);
}

TEST_F(returned_futures, end_at_deadlines_of_calls) { expect_late_handler(late_call); }
TEST_F(returned_futures, end_at_deadlines_behind_then) { expect_late_handler(late_then); }
TEST_F(returned_futures, end_at_deadlines_inside_then) { expect_late_handler(late_inside_then); }
TEST_F(returned_futures, end_at_deadlines_behind_via) { expect_late_handler(late_via); }
TEST_F(returned_futures, end_at_deadlines_behind_share) { expect_late_handler(late_share); }
TEST_F(returned_futures, end_at_deadlines_beside_stop_tokens) {
  expect_late_handler(late_with_stop);
}
TEST_F(returned_futures, end_at_deadlines_of_promises) { expect_late_handler(late_promise); }

TEST_F(returned_futures, that_are_late_stop_their_calls) {
  // On a busy machine, the deadline may pass before the call has begun.
  ASSERT_TRUE(eventually([&] {
    expect_late_handler(late_call);
    return sync(other_, has_kept);
  }));
  EXPECT_TRUE(eventually([&] { return sync(other_, all_kept_are_stopped); }));
}

TEST_F(returned_futures, that_are_late_leave_the_worker_to_others) {
  std::vector<future<int>> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back(async(target_, late_call, other_));
    EXPECT_EQ(sync(target_, twice, i), 2 * i);
  }
  for (future<int>& f : all)
    expect_late<remote_error>(std::move(f));
}

TEST_F(returned_futures, are_results_in_time) {
  const auto in_time = [](const node& there, int v) {
    return async(there.within(wait_limit), twice, v);
  };
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(sync(target_, in_time, other_, i), 2 * i);
  const auto is_kept = [](const node& there) { return async(there.within(wait_limit), keep); };
  future<int> f = async(target_, is_kept, other_);
  ASSERT_TRUE(eventually([&] { return sync(other_, has_kept); }));
  EXPECT_FALSE(f.test());
  sync(other_, end_kept);
  EXPECT_EQ(f.within(wait_limit).get(), 7);
}

// ---- by functions that follow -------------------------------------------------------------------

TEST_F(returned_futures, end_what_then_gives) {
  expect_late<timeout>(
      async(target_, twice, 1).then([this](future<int>) { return late_future(); }));
  expect_late<timeout>(make_ready_future(1).then([this](future<int>) { return late_future(); }));
}

TEST_F(returned_futures, end_what_then_of_a_shared_future_gives) {
  const shared_future<int> first = async(target_, twice, 1).share();
  expect_late<timeout>(first.then([this](shared_future<int>) { return late_future(); }));
}

TEST_F(returned_futures, end_what_then_on_an_executor_gives) {
  expect_late<timeout>(
      async(target_, twice, 1).via(here).then([this](future<int>) { return late_future(); }));
}

TEST_F(returned_futures, are_results_of_then_in_time) {
  for (int i = 0; i < 200; ++i) {
    future<int> f = async(target_, twice, i).then([this](future<int> first) {
      return async(other_.within(wait_limit), twice, first.get());
    });
    EXPECT_EQ(f.within(wait_limit).get(), 4 * i);
  }
}

TEST_F(returned_futures, end_at_the_deadline_of_the_first_too) {
  future<int> f =
      async(target_, twice, 1).then([this](future<int>) { return async(other_, keep); });
  EXPECT_THROW((void)f.within(soon).get(), timeout);
}

// ---- that are shared ----------------------------------------------------------------------------

TEST_F(returned_futures, that_are_shared_have_a_deadline_for_each_copy) {
  const shared_future<int> first = late_future().share();
  const shared_future<int> second = first.within(wait_limit);
  EXPECT_THROW((void)first.get(), timeout);
  EXPECT_FALSE(second.test()) << "its own deadline has not passed";
  sync(other_, end_kept);
  EXPECT_EQ(second.get(), 7);
  EXPECT_EQ(first.get(), 7);
}

} // namespace
} // namespace farcall::test::returned_futures_test
