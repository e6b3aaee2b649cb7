// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/stop_token.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace farcall::test::stop_token_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// ---- without a job ------------------------------------------------------------------------------

TEST(stop_tokens, leave_results_alone_without_a_stop) {
  const std::stop_source source;
  promise<std::string> p;
  future<std::string> f = stop_when(p.get_future(), source.get_token());
  EXPECT_FALSE(f.test());
  p.set_value("given");
  EXPECT_EQ(f.get(), "given");
  promise<int> q;
  future<int> bad = stop_when(q.get_future(), source.get_token());
  q.set_exception(std::make_exception_ptr(std::out_of_range("given")));
  EXPECT_THROW((void)bad.get(), std::out_of_range);
}

TEST(stop_tokens, end_pending_futures) {
  std::stop_source source;
  promise<std::string> p;
  future<std::string> f = stop_when(p.get_future(), source.get_token());
  source.request_stop();
  ASSERT_TRUE(f.test());
  EXPECT_THAT(text_thrown_by<cancelled>([&] { (void)f.get(); }), HasSubstr("stop was requested"));
  p.set_value("dropped");
}

TEST(stop_tokens, end_what_was_started_after_the_stop) {
  std::stop_source source;
  source.request_stop();
  promise<int> p;
  future<int> f = stop_when(p.get_future(), source.get_token());
  EXPECT_THROW((void)f.get(), cancelled);
  p.set_value(1);
}

TEST(stop_tokens, leave_what_is_ready) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(stop_when(make_ready_future(1), source.get_token()).get(), 1);
  stop_when(make_ready_future(), source.get_token()).get();
}

TEST(stop_tokens, that_cannot_stop_leave_the_result) {
  promise<void> p;
  future<void> f = stop_when(p.get_future(), std::stop_token());
  p.set_value();
  f.get();
}

TEST(stop_tokens, need_a_future) {
  EXPECT_THROW((void)stop_when(future<int>(), std::stop_token()), error);
}

TEST(stop_tokens, run_what_follows_once) {
  std::stop_source source;
  promise<int> p;
  std::vector<std::string> seen;
  future<void> f = stop_when(p.get_future(), source.get_token()).then([&](future<int> ready) {
    try {
      seen.push_back(std::to_string(ready.get()));
    } catch (const cancelled&) {
      seen.emplace_back("cancelled");
    }
  });
  source.request_stop();
  EXPECT_THAT(seen, ::testing::ElementsAre("cancelled"));
  p.set_value(1);
  EXPECT_EQ(seen.size(), 1U);
  f.get();
}

future<int> awaits(future<int> f) { co_return co_await std::move(f) + 1; }

TEST(stop_tokens, throw_into_coroutines) {
  std::stop_source source;
  promise<int> p;
  future<int> f = awaits(stop_when(p.get_future(), source.get_token()));
  source.request_stop();
  EXPECT_THROW((void)f.get(), cancelled);
  p.set_value(1);
}

TEST(stop_tokens, drop_what_was_waited_for) {
  std::stop_source source;
  promise<std::shared_ptr<int>> p;
  auto value = std::make_shared<int>(1);
  future<std::shared_ptr<int>> f = stop_when(p.get_future(), source.get_token());
  source.request_stop();
  p.set_value(value);
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_THROW((void)f.get(), cancelled);
}

TEST(stop_tokens, may_stop_what_was_dropped) {
  std::stop_source source;
  promise<int> p;
  promise<int> q;
  (void)stop_when(p.get_future(), source.get_token());
  (void)stop_when(q.get_future(), source.get_token());
  p.set_value(1);
  source.request_stop();
  q.set_value(1);
}

/// A token like P2300's, which counts its callbacks. For one thread.
struct counting_token {
  static inline int callbacks = 0;
  template <class F>
  class callback_type {
   public:
    callback_type(const counting_token& /*token*/, F f) : f_(std::move(f)) { ++callbacks; }
    callback_type(const callback_type&) = delete;
    callback_type& operator=(const callback_type&) = delete;
    ~callback_type() { --callbacks; }

   private:
    F f_;
  };
  [[nodiscard]] bool stop_requested() const { return false; }
  [[nodiscard]] bool stop_possible() const { return true; }
};

TEST(stop_tokens, keep_no_callback_once_the_result_is_there) {
  promise<int> p;
  future<int> left = stop_when(p.get_future(), counting_token()).then([](const future<int>&) {
    return counting_token::callbacks;
  });
  EXPECT_EQ(counting_token::callbacks, 1);
  p.set_value(1);
  EXPECT_EQ(left.get(), 0);
  EXPECT_EQ(counting_token::callbacks, 0);
}

TEST(stop_tokens, end_a_hundred_thousand_in_little_stack) {
  constexpr std::size_t many = 100'000;
  std::stop_source source;
  promise<int> p;
  std::vector<promise<int>> side_by_side(many);
  std::atomic<std::size_t> ended{0};
  for (auto& each : side_by_side) {
    (void)stop_when(each.get_future(), source.get_token()).then([&](const future<int>&) {
      ++ended;
    });
  }
  // Each continuation completes the next.
  future<int> last = p.get_future();
  for (std::size_t i = 0; i < many; ++i)
    last = stop_when(std::move(last), source.get_token());
  source.request_stop();
  EXPECT_EQ(ended, many);
  EXPECT_THROW((void)last.get(), cancelled);
  for (auto& each : side_by_side)
    each.set_value(1);
  EXPECT_EQ(ended, many);
}

TEST(stop_tokens, race_with_results_and_waiting_threads) {
  int values = 0;
  int stops = 0;
  for (int round = 0; round < 300; ++round) {
    std::stop_source source;
    promise<std::string> p;
    std::atomic<int> go{0};
    future<std::string> kept = p.get_future();
    std::jthread giving([&] {
      ++go;
      while (go < 3)
        std::this_thread::yield();
      p.set_value("given");
    });
    std::jthread stopping([&] {
      ++go;
      while (go < 3)
        std::this_thread::yield();
      source.request_stop();
    });
    ++go;
    future<std::string> f = stop_when(std::move(kept), source.get_token());
    try {
      ASSERT_EQ(f.get(), "given");
      ++values;
    } catch (const cancelled&) {
      ++stops;
    }
  }
  EXPECT_EQ(values + stops, 300);
}

TEST(stop_tokens, race_with_futures_that_are_dropped) {
  for (int round = 0; round < 300; ++round) {
    std::stop_source source;
    promise<std::string> p;
    std::atomic<int> ended{0};
    future<std::string> f = stop_when(p.get_future(), source.get_token());
    std::jthread giving([&] { p.set_value("given"); });
    std::jthread stopping([&] { source.request_stop(); });
    if (round % 2 == 0) {
      f = {};
    } else {
      f.then([&](const future<std::string>&) { ++ended; }).get();
      ASSERT_EQ(ended, 1);
    }
  }
}

// ---- with a job ---------------------------------------------------------------------------------

class stopped_calls : public two_targets_test {
 protected:
  stopped_calls() : gate_(target_) {}

  /// Runs until word 0 is set, then sets word 1 to report its end.
  template <class Place>
  future<int> held(const Place& where) {
    return async(
        where,
        [](handshake::words words) {
          const bool there = handshake::wait(words.local(), 0, 1);
          handshake::set(words.local(), 1, 1);
          return there ? 1 : -1;
        },
        gate_.span());
  }

  std::stop_source source_;
  handshake gate_;
};

int twice(int v) { return 2 * v; }
void set_two(handshake::words words) { handshake::set(words.local(), 2, 1); }

TEST_F(stopped_calls, end_while_the_target_goes_on) {
  future<int> f = held(target_.with(source_.get_token()));
  EXPECT_FALSE(f.wait_for(milliseconds(10)));
  source_.request_stop();
  const auto e = thrown_by<cancelled>([&] { (void)f.get(); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->node(), target_.id());
  EXPECT_EQ(gate_.get(1), 0U);
  gate_.set(0);
  EXPECT_TRUE(gate_.wait(1)) << "the call runs to its end";
  EXPECT_EQ(sync(target_, twice, 1), 2);
}

TEST_F(stopped_calls, give_results_without_a_stop) {
  EXPECT_EQ(sync(target_.with(source_.get_token()), twice, 2), 4);
  EXPECT_EQ(async(target_.with(source_.get_token()), twice, 2).get(), 4);
  post(target_.with(source_.get_token()), set_two, gate_.span());
  EXPECT_TRUE(gate_.wait(2));
  EXPECT_THROW(sync(target_.with(source_.get_token()), [] { throw std::logic_error("there"); }),
               remote_error);
}

TEST_F(stopped_calls, are_not_sent_after_the_stop) {
  source_.request_stop();
  const auto place = target_.with(source_.get_token());
  future<void> f = async(place, set_two, gate_.span());
  EXPECT_THAT(text_thrown_by<cancelled>([&] { f.get(); }), HasSubstr("not sent"));
  EXPECT_THROW(sync(place, set_two, gate_.span()), cancelled);
  EXPECT_THROW(post(place, set_two, gate_.span()), cancelled);
  EXPECT_EQ(sync(target_, twice, 1), 2); // earlier calls have run by now
  EXPECT_EQ(gate_.get(2), 0U);
}

TEST_F(stopped_calls, wake_threads_that_wait) {
  future<int> f = held(target_.with(source_.get_token()));
  std::jthread stopping([&] {
    std::this_thread::sleep_for(milliseconds(20));
    source_.request_stop();
  });
  EXPECT_THROW((void)f.get(), cancelled);
  gate_.set(0);
}

TEST_F(stopped_calls, keep_the_deadline) {
  future<int> f = held(target_.within(milliseconds(20)).with(source_.get_token()));
  EXPECT_THROW((void)f.get(), timeout);
  source_.request_stop();
  EXPECT_THROW((void)f.get(), cancelled);
  gate_.set(0);
}

TEST_F(stopped_calls, end_in_lanes_and_combinations) {
  lane l(target_);
  future<int> in_lane = stop_when(held(l), source_.get_token());
  auto both =
      stop_when(when_all_values(held(target_), async(other_, twice, 1)), source_.get_token());
  EXPECT_FALSE(both.wait_for(milliseconds(10)));
  source_.request_stop();
  EXPECT_THROW((void)in_lane.get(), cancelled);
  EXPECT_THROW((void)both.get(), cancelled);
  gate_.set(0);
}

TEST_F(stopped_calls, race_with_the_reply) {
  for (int round = 0; round < 200; ++round) {
    std::stop_source source;
    std::vector<future<std::string>> calls;
    for (int i = 0; i < 8; ++i) {
      calls.push_back(async((i % 2 == 0 ? target_ : other_).with(source.get_token()),
                            [](int v) { return std::string(100, static_cast<char>('a' + v)); }, i));
    }
    std::jthread stopping([&] { source.request_stop(); });
    for (auto& call : calls) {
      try {
        ASSERT_EQ(call.get().size(), 100U);
      } catch (const cancelled&) { // NOLINT(bugprone-empty-catch): either may come first
      }
    }
  }
  EXPECT_EQ(sync(target_, twice, 1), 2);
}

TEST(stopped_calls_at_the_end, end_with_their_job) {
  std::stop_source source;
  std::stop_source later;
  const auto sleeps = [] {
    std::this_thread::sleep_for(std::chrono::hours(1));
    return 1;
  };
  future<int> stopped;
  future<int> failed;
  {
    job j(with_targets("shm"));
    const node target = j.targets().front();
    stopped = async(target.with(source.get_token()), sleeps);
    failed = async(target.with(later.get_token()), sleeps);
    source.request_stop();
    ::kill(static_cast<pid_t>(target.description().pid), SIGKILL);
  }
  later.request_stop();
  EXPECT_THROW((void)stopped.get(), cancelled);
  EXPECT_THROW((void)failed.get(), node_failed);
}

} // namespace
} // namespace farcall::test::stop_token_test
