// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/am/stoppable_calls.hpp>
#include <farcall/async/call.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/stop_token.hpp>
#include <farcall/async/task.hpp>
#include <farcall/call/reply.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/types.h>

/// Effects of a stop on the target.
namespace farcall::test::stopped_calls_test {
namespace {

using std::chrono::milliseconds;

// ---- the token ----------------------------------------------------------------------------------

// Requirements of C++26 for a stoppable_token.
static_assert(stoppable_token<call_stop_token>);
static_assert(std::equality_comparable<call_stop_token> && std::swappable<call_stop_token>);
static_assert(std::is_nothrow_copy_constructible_v<call_stop_token> &&
              std::is_nothrow_move_constructible_v<call_stop_token> &&
              std::is_nothrow_default_constructible_v<call_stop_token>);
static_assert(noexcept(std::declval<const call_stop_token&>().stop_requested()));
static_assert(noexcept(std::declval<const call_stop_token&>().stop_possible()));
using any_callback = call_stop_token::callback_type<void (*)()>;
static_assert(std::constructible_from<any_callback, call_stop_token, void (*)()>);
static_assert(!std::copyable<any_callback> && !std::movable<any_callback>);

TEST(call_stop_tokens, default_tokens_never_stop) {
  const call_stop_token none;
  EXPECT_FALSE(none.stop_possible());
  EXPECT_FALSE(none.stop_requested());
  EXPECT_EQ(none, stop_token_of_call());
  const call_stop_token::callback_type never(none, [] { ADD_FAILURE() << "told"; });
}

/// The state of a call of node 1, until the end of the test.
class begun_call {
 public:
  begun_call(am::stoppable_calls& calls, std::uint64_t id) : state_(calls.begin(1, id)) {}
  begun_call(const begun_call&) = delete;
  begun_call& operator=(const begun_call&) = delete;
  ~begun_call() { state_->end(); }
  [[nodiscard]] call_stop_token token() const { return call_stop_token(state_); }

 private:
  counted_ptr<am::stop_state> state_;
};

TEST(call_stop_tokens, of_calls) {
  const counted_ptr<am::stoppable_calls> calls(new am::stoppable_calls);
  const begun_call first(*calls, 1);
  const begun_call second(*calls, 2);
  const call_stop_token token = first.token();
  const call_stop_token other = second.token();
  const call_stop_token same = token;
  EXPECT_EQ(token, same);
  EXPECT_NE(token, other);
  EXPECT_NE(token, call_stop_token());
  EXPECT_TRUE(token.stop_possible());
  int told = 0;
  std::optional<call_stop_token::callback_type<std::function<void()>>> gone;
  gone.emplace(token, [&] { told += 100; });
  const call_stop_token::callback_type<std::function<void()>> kept(token, [&] { ++told; });
  gone.reset();
  calls->stop(1, 1);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(same.stop_requested());
  EXPECT_FALSE(other.stop_requested());
  const call_stop_token::callback_type<std::function<void()>> late(token, [&] { ++told; });
  EXPECT_EQ(told, 2);
}

TEST(call_stop_tokens, end_waits) {
  const counted_ptr<am::stoppable_calls> calls(new am::stoppable_calls);
  const begun_call call(*calls, 1);
  const call_stop_token token = call.token();
  promise<int> p;
  future<int> f = stop_when(p.get_future(), token);
  EXPECT_FALSE(f.test());
  calls->stop(1, 1);
  EXPECT_THROW((void)f.get(), cancelled);
  p.set_value(1);
}

// ---- handlers -----------------------------------------------------------------------------------

using words = handshake::words;

constexpr std::size_t began = 0;
constexpr std::size_t told = 1;
constexpr std::size_t counter = 2;
constexpr std::size_t gate = 3;

/// Waits for a stop, for a limited time like handshake::wait().
bool is_stopped_in_time(const call_stop_token& token) {
  return eventually([&] { return token.stop_requested(); });
}

/// Runs until it is stopped.
void run_on(words w) {
  const call_stop_token token = stop_token_of_call();
  handshake::add(w.local(), began);
  if (token.stop_possible() && is_stopped_in_time(token)) handshake::add(w.local(), told);
}

// Atomics, not words: calls of another process order the accesses, which a sanitizer cannot see.
std::atomic<int> begun_here{0};
std::atomic<int> told_here{0};

void run_on_at_host() {
  const call_stop_token token = stop_token_of_call();
  ++begun_here;
  if (token.stop_possible() && is_stopped_in_time(token)) ++told_here;
}

void count(words w) { handshake::add(w.local(), counter); }
void count_long(words w, const std::vector<int>& /*many*/) { handshake::add(w.local(), counter); }
int twice(int v) { return 2 * v; }

std::size_t known_calls() { return am::engine_of(*detail::only_client()).stops().calls().size(); }

bool can_be_stopped() { return stop_token_of_call().stop_possible(); }

/// A reply that is kept until its call is stopped.
struct kept_reply {
  kept_reply(reply<int> r, words w)
      : to(std::move(r)), where(w), listening(stop_token_of_call(), on_stop{this}) {}
  struct on_stop {
    kept_reply* whose;
    void operator()() const noexcept {
      handshake::add(whose->where.local(), told);
      whose->to.set_value(1);
    }
  };
  reply<int> to;
  words where;
  call_stop_token::callback_type<on_stop> listening;
};

std::unique_ptr<kept_reply> kept;

void reply_once_stopped(reply<int> r, words w) {
  kept = std::make_unique<kept_reply>(std::move(r), w);
  handshake::add(w.local(), began);
}

future<int> future_once_stopped(words w) {
  const call_stop_token token = stop_token_of_call();
  promise<int> never;
  future<int> f = stop_when(never.get_future(), token).then([w](future<int> ended) {
    try {
      return ended.get();
    } catch (const cancelled&) {
      handshake::add(w.local(), told);
      return 1;
    }
  });
  static std::vector<promise<int>> open;
  open.push_back(std::move(never));
  handshake::add(w.local(), began);
  return f;
}

task<int> task_once_stopped(words w) {
  const call_stop_token token = stop_token_of_call();
  co_return co_await future_once_stopped(w) + (token.stop_requested() ? 1 : 0);
}

/// Calls another node with the token of its own call.
void call_on(const node& further, words w) { sync(further.with(stop_token_of_call()), run_on, w); }

/// Calls with a token that is never stopped.
void call_and_wait(const node& further, words w) {
  const std::stop_source source;
  sync(further.with(source.get_token()), run_on, w);
}

// ---- with a job ---------------------------------------------------------------------------------

class calls_to_stop : public two_targets_test {
 protected:
  calls_to_stop() : gate_(target_), other_gate_(other_) {}

  auto stoppable() { return target_.with(source_.get_token()); }

  /// Keeps the only worker of the target busy until it is stopped; earlier stops have taken effect
  /// by then.
  future<void> keep_busy() {
    future<void> f = async(target_.with(last_.get_token()), run_on, gate_.span());
    EXPECT_TRUE(gate_.wait(began));
    return f;
  }
  void go_on() {
    last_.request_stop();
    EXPECT_TRUE(gate_.wait(told));
  }

  void expect_nothing_left() {
    for (const node& n : {target_, other_}) {
      EXPECT_EQ(sync(n, twice, 1), 2);
      EXPECT_TRUE(eventually([&] {
        // Takes the replies left by threads that have ended.
        job_.progress();
        return sync(n, known_calls) == 0;
      }));
    }
  }

  std::stop_source source_;
  std::stop_source last_;
  handshake gate_;
  handshake other_gate_;
};

TEST_F(calls_to_stop, do_not_run_before_they_have_begun) {
  future<void> busy = keep_busy();
  std::vector<future<void>> waiting;
  for (int i = 0; i < 300; ++i)
    waiting.push_back(async(stoppable(), count, gate_.span()));
  future<void> ordinary = async(target_, count, gate_.span());
  source_.request_stop();
  for (auto& each : waiting)
    EXPECT_THROW(each.get(), cancelled);
  go_on();
  EXPECT_THROW(busy.get(), cancelled);
  ordinary.get();
  EXPECT_EQ(gate_.get(counter), 1U);
  expect_nothing_left();
}

TEST_F(calls_to_stop, with_long_arguments_give_their_memory_back) {
  job_options options = with_targets("shm");
  options.heap_bytes = std::size_t{64} << 20;
  job small(options);
  const node target = small.targets().front();
  handshake words(target);
  const std::vector<int> many(std::size_t{2} << 20);
  for (int round = 0; round < 20; ++round) {
    std::stop_source source;
    std::stop_source last;
    future<void> busy = async(target.with(last.get_token()), run_on, words.span());
    EXPECT_TRUE(words.wait(began, static_cast<std::uint32_t>(round + 1)));
    future<void> f = async(target.with(source.get_token()), count_long, words.span(), many);
    source.request_stop();
    EXPECT_THROW(f.get(), cancelled);
    last.request_stop();
    EXPECT_EQ(sync(target, twice, 1), 2);
  }
  EXPECT_EQ(words.get(counter), 0U);
  sync(target.with(std::stop_source().get_token()), count_long, words.span(), many);
  EXPECT_EQ(words.get(counter), 1U);
}

TEST_F(calls_to_stop, are_told_while_they_run) {
  future<void> f = async(stoppable(), run_on, gate_.span());
  EXPECT_TRUE(gate_.wait(began));
  source_.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(gate_.wait(told));
  expect_nothing_left();
}

TEST_F(calls_to_stop, are_told_while_they_run_though_nobody_holds_them) {
  (void)async(stoppable(), run_on, gate_.span());
  EXPECT_TRUE(gate_.wait(began));
  source_.request_stop();
  EXPECT_TRUE(gate_.wait(told));
  expect_nothing_left();
}

/// A token whose stop is requested after the call was sent, and before its future is watched.
struct stopped_meanwhile {
  template <class F>
  class callback_type {
   public:
    callback_type(const stopped_meanwhile& /*token*/, F f) { f(); }
    callback_type(const callback_type&) = delete;
    callback_type& operator=(const callback_type&) = delete;
  };
  [[nodiscard]] bool stop_requested() const { return false; }
  [[nodiscard]] bool stop_possible() const { return true; }
};

TEST_F(calls_to_stop, are_told_of_a_stop_during_the_call) {
  future<void> f = async(target_.with(stopped_meanwhile()), run_on, gate_.span());
  EXPECT_THROW(f.get(), cancelled);
  expect_nothing_left();
  EXPECT_EQ(gate_.get(told), gate_.get(began));
}

TEST_F(calls_to_stop, are_told_by_callbacks) {
  future<void> f = async(
      stoppable(),
      [](words w) {
        const auto tell = [w] { handshake::add(w.local(), told); };
        const call_stop_token::callback_type<decltype(tell)> on_stop(stop_token_of_call(), tell);
        handshake::add(w.local(), began);
        (void)handshake::wait(w.local(), gate, 1);
      },
      gate_.span());
  EXPECT_TRUE(gate_.wait(began));
  source_.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(gate_.wait(told));
  gate_.set(gate);
  expect_nothing_left();
}

TEST_F(calls_to_stop, are_told_after_their_handler_has_returned) {
  future<int> later = async(stoppable(), reply_once_stopped, gate_.span());
  EXPECT_TRUE(gate_.wait(began, 1));
  future<int> futures = async(stoppable(), future_once_stopped, gate_.span());
  EXPECT_TRUE(gate_.wait(began, 2));
  future<int> tasks = async(stoppable(), task_once_stopped, gate_.span());
  EXPECT_TRUE(gate_.wait(began, 3));
  EXPECT_EQ(sync(target_, known_calls), 3U);
  source_.request_stop();
  EXPECT_TRUE(gate_.wait(told, 3));
  for (future<int>* each : {&later, &futures, &tasks})
    EXPECT_THROW((void)each->get(), cancelled);
  expect_nothing_left();
  sync(target_, [] { kept.reset(); });
}

TEST_F(calls_to_stop, can_be_ordinary_calls_too) {
  EXPECT_FALSE(sync(target_, can_be_stopped));
  EXPECT_TRUE(sync(stoppable(), can_be_stopped));
  EXPECT_FALSE(sync(target_.with(std::stop_token()), can_be_stopped));
  EXPECT_FALSE(sync(target_.with(call_stop_token()), can_be_stopped));
  EXPECT_TRUE(sync(target_.within(wait_limit).with(source_.get_token()), can_be_stopped));
}

TEST_F(calls_to_stop, leave_what_has_ended) {
  EXPECT_EQ(sync(stoppable(), twice, 2), 4);
  source_.request_stop();
  expect_nothing_left();
  EXPECT_EQ(sync(target_.with(last_.get_token()), twice, 2), 4) << "other calls";
}

// ---- by a deadline ------------------------------------------------------------------------------

/// Passes while a handler runs or waits for its worker.
constexpr milliseconds soon{30};

TEST_F(calls_to_stop, do_not_run_after_their_deadline) {
  future<void> busy = keep_busy();
  for (int i = 0; i < 20; ++i)
    EXPECT_THROW(sync(target_.within(milliseconds(1)), count, gate_.span()), timeout);
  std::vector<future<void>> waiting;
  for (int i = 0; i < 100; ++i)
    waiting.push_back(async(target_.within(soon), count, gate_.span()));
  EXPECT_THROW(waiting.back().get(), timeout);
  waiting.clear();
  go_on();
  EXPECT_THROW(busy.get(), cancelled);
  expect_nothing_left();
  EXPECT_EQ(gate_.get(counter), 0U);
}

TEST_F(calls_to_stop, are_told_of_their_deadline) {
  future<void> f = async(target_.within(soon), run_on, gate_.span());
  EXPECT_TRUE(gate_.wait(began));
  EXPECT_THROW(f.get(), timeout);
  EXPECT_EQ(gate_.get(told), 0U) << "it can still be waited for";
  f = {};
  EXPECT_TRUE(gate_.wait(told));
  expect_nothing_left();
}

TEST_F(calls_to_stop, are_told_of_their_deadline_also_with_a_token) {
  future<void> f = async(target_.within(soon).with(source_.get_token()), run_on, gate_.span());
  EXPECT_TRUE(gate_.wait(began));
  EXPECT_THROW(f.get(), timeout);
  f = {};
  EXPECT_TRUE(gate_.wait(told));
  source_.request_stop();
  expect_nothing_left();
}

future<bool> await_in_time(node target, words w) {
  try {
    co_await async(target.within(soon), run_on, w);
  } catch (const timeout&) {
    co_return true;
  }
  co_return false;
}

TEST_F(calls_to_stop, are_told_of_the_deadline_of_a_coroutine) {
  EXPECT_TRUE(await_in_time(target_, gate_.span()).get());
  // The call may have begun only after the deadline.
  EXPECT_TRUE(eventually([&] { return gate_.get(told) == gate_.get(began); }));
  expect_nothing_left();
}

int wait_for_gate(words w) { return handshake::wait(w.local(), gate, 1) ? 7 : 0; }

TEST_F(calls_to_stop, go_on_while_somebody_holds_them_after_a_deadline) {
  future<int> f = async(target_.within(soon), wait_for_gate, gate_.span());
  EXPECT_THROW((void)f.get(), timeout);
  gate_.set(gate);
  EXPECT_EQ(std::move(f).within(wait_limit).get(), 7);
  expect_nothing_left();
}

TEST_F(calls_to_stop, go_on_when_dropped_before_their_deadline) {
  (void)async(target_.within(wait_limit), count, gate_.span());
  (void)async(target_.within(std::chrono::hours::max()), count, gate_.span());
  EXPECT_EQ(sync(target_, twice, 1), 2);
  EXPECT_EQ(gate_.get(counter), 2U);
  EXPECT_TRUE(sync(target_.within(wait_limit), can_be_stopped));
  EXPECT_FALSE(sync(target_.within(std::chrono::hours::max()), can_be_stopped));
}

// ---- races --------------------------------------------------------------------------------------

TEST_F(calls_to_stop, race_with_the_reply) {
  int values = 0;
  int stops = 0;
  constexpr int rounds = 3000;
  std::atomic<std::stop_source*> next{nullptr};
  std::atomic<bool> ends{false};
  std::thread stopping([&] {
    while (!ends) {
      if (std::stop_source* const source = next.exchange(nullptr)) source->request_stop();
      spin_pause();
    }
  });
  std::vector<std::unique_ptr<std::stop_source>> sources;
  for (int round = 0; round < rounds; ++round) {
    sources.push_back(std::make_unique<std::stop_source>());
    future<int> f =
        async((round % 2 == 0 ? target_ : other_).with(sources.back()->get_token()), twice, round);
    next = sources.back().get();
    try {
      ASSERT_EQ(f.get(), 2 * round);
      ++values;
    } catch (const cancelled&) {
      ++stops;
    }
  }
  ends = true;
  stopping.join();
  EXPECT_EQ(values + stops, rounds);
  expect_nothing_left();
}

TEST_F(calls_to_stop, run_or_are_not_run_once) {
  // A stop whose call has ended must not hit another call.
  for (int round = 0; round < 500; ++round) {
    std::stop_source source;
    (void)async(target_.with(source.get_token()), twice, 1);
    source.request_stop();
    sync(target_.with(source_.get_token()), count, gate_.span());
  }
  EXPECT_EQ(gate_.get(counter), 500U);
  expect_nothing_left();
}

TEST_F(calls_to_stop, hand_their_token_on) {
  future<void> f = async(stoppable(), call_on, other_, other_gate_.span());
  EXPECT_TRUE(other_gate_.wait(began));
  source_.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(other_gate_.wait(told));
  expect_nothing_left();
}

TEST_F(calls_to_stop, may_come_from_targets_to_the_host) {
  begun_here = 0;
  told_here = 0;
  future<void> f =
      async(stoppable(), [] { sync(host().with(stop_token_of_call()), run_on_at_host); });
  EXPECT_TRUE(eventually([] { return begun_here == 1; }));
  source_.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(eventually([] { return told_here == 1; }));
  expect_nothing_left();
}

TEST_F(calls_to_stop, may_be_calls_of_a_node_to_itself) {
  handshake here(job_.host());
  future<void> f = async(job_.host().with(source_.get_token()), run_on, here.span());
  EXPECT_TRUE(here.wait(began));
  source_.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(here.wait(told));
}

TEST_F(calls_to_stop, are_told_when_their_caller_dies) {
  future<void> f = async(target_, call_and_wait, other_, other_gate_.span());
  EXPECT_TRUE(other_gate_.wait(began));
  ::kill(static_cast<pid_t>(target_.description().pid), SIGKILL);
  EXPECT_TRUE(other_gate_.wait(told));
  EXPECT_THROW(f.get(), node_failed);
  EXPECT_TRUE(eventually([&] { return sync(other_, known_calls) == 0; }));
}

TEST_F(calls_to_stop, race_from_many_threads) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 100; ++round) {
        std::stop_source source;
        std::vector<future<int>> calls;
        for (int i = 0; i < 8; ++i)
          calls.push_back(async((i + t) % 2 == 0 ? target_.with(source.get_token())
                                                 : other_.with(source.get_token()),
                                twice, i));
        if (round % 4 != 0) source.request_stop();
        for (int i = 0; i < 8; ++i) {
          try {
            if (calls[static_cast<std::size_t>(i)].get() != 2 * i) ++wrong;
          } catch (const cancelled&) {
            if (round % 4 == 0) ++wrong;
          }
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  expect_nothing_left();
}

TEST_F(calls_to_stop, are_told_without_a_lane_for_stops) {
  EXPECT_EQ(sync(target_, twice, 1), 2);
  std::vector<lane> all;
  try {
    for (;;)
      all.emplace_back(target_.within(milliseconds(100)));
  } catch (const error&) { // NOLINT(bugprone-empty-catch): no lane is left
  }
  EXPECT_GT(all.size(), 100U);
  // The stop uses the lane of the call, which is served while the handler waits.
  future<void> f = async(
      stoppable(),
      [](words w) {
        const call_stop_token token = stop_token_of_call();
        promise<void> never;
        future<void> ended = stop_when(never.get_future(), token);
        handshake::add(w.local(), began);
        if (ended.wait_for(wait_limit)) handshake::add(w.local(), told);
      },
      gate_.span());
  EXPECT_TRUE(gate_.wait(began));
  source_.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  EXPECT_TRUE(gate_.wait(told));
}

TEST(calls_to_stop_at_the_end, are_told_before_the_job_has_ended) {
  for (int round = 0; round < 10; ++round) {
    std::stop_source source;
    future<void> f;
    std::uint64_t pid = 0;
    const auto begun = clock::now();
    {
      job_options options = with_targets("shm");
      // A call that is not told of the stop would keep the job for as long.
      options.stop_timeout = std::chrono::duration_cast<milliseconds>(2 * wait_limit);
      job j(options);
      const node target = j.targets().front();
      pid = target.description().pid;
      handshake words(target);
      f = async(target.with(source.get_token()), run_on, words.span());
      EXPECT_TRUE(words.wait(began));
      source.request_stop();
    }
    EXPECT_LT(clock::now() - begun, wait_limit) << "process " << pid;
    EXPECT_THROW(f.get(), cancelled);
  }
}

} // namespace
} // namespace farcall::test::stopped_calls_test
