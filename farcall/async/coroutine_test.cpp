// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/shared_future.hpp>
#include <farcall/async/task.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::coroutine_test {
namespace {

using ::testing::HasSubstr;

class coroutines : public two_targets_test {
 protected:
  coroutines() : gate_(target_) {}
  handshake gate_;
};

int twice(int v) { return 2 * v; }
int held(handshake::words words, int v) { return handshake::wait(words.local(), 0, 1) ? v : -1; }
int held_there(handshake::words words) {
  std::vector<std::uint32_t> copy(words.size());
  return eventually([&] {
    get_sync(words, copy);
    return copy[0] != 0;
  })
             ? 1
             : -1;
}
int thrower(int v) { throw std::out_of_range("value " + std::to_string(v)); }

future<int> sum_of_two(node a, node b) {
  const int one = co_await async(a, twice, 1);
  const int two = co_await async(b, twice, one);
  co_return one + two;
}

future<std::string> text(node a) {
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += co_await async(a, [](int v) { return std::to_string(v); }, i);
  }
  co_return all;
}

future<void> nothing(node a, int& done) {
  co_await async(a, [] {});
  ++done;
}

TEST_F(coroutines, await_calls) {
  EXPECT_EQ(sum_of_two(target_, other_).get(), 6);
  EXPECT_EQ(text(target_).get().size(), 90U);
  int done = 0;
  nothing(target_, done).get();
  EXPECT_EQ(done, 1);
}

future<int> fails(node a) {
  const int v = co_await async(a, thrower, 5);
  co_return v;
}

future<int> recovers(node a) {
  int v = 0;
  try {
    v = co_await async(a, thrower, 5);
  } catch (const remote_error& e) {
    v = static_cast<int>(e.text().size());
  }
  co_return v;
}

future<int> throws_itself(node a) {
  (void)co_await async(a, twice, 1);
  throw std::logic_error("by itself");
}

TEST_F(coroutines, exceptions) {
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)fails(target_).get(); }),
              HasSubstr("value 5"));
  EXPECT_EQ(recovers(target_).get(), 7);
  EXPECT_THROW((void)throws_itself(target_).get(), std::logic_error);
}

future<int> waits(node a, handshake::words words) { co_return co_await async(a, held, words, 4); }

TEST_F(coroutines, run_up_to_their_first_wait) {
  future<int> f = waits(target_, gate_.span());
  EXPECT_FALSE(f.test());
  EXPECT_FALSE(f.wait_for(std::chrono::milliseconds(20)));
  gate_.set(0);
  EXPECT_EQ(f.get(), 4);
}

future<int> outer(node a, handshake::words words) {
  const int inner = co_await waits(a, words);
  co_return inner + co_await make_ready_future(1) + co_await async(a, twice, 3);
}

TEST_F(coroutines, await_each_other) {
  future<int> f = outer(target_, gate_.span());
  EXPECT_FALSE(f.test());
  gate_.set(0);
  EXPECT_EQ(f.get(), 11);
}

future<int> begins_ready(node a, handshake::words words) {
  // The first await does not depend on a lane.
  const int one = co_await make_ready_future(1);
  co_await make_ready_future();
  co_return one + co_await async(a, held, words, 4);
}

TEST_F(coroutines, that_await_something_ready_first) {
  future<int> f = begins_ready(target_, gate_.span());
  EXPECT_FALSE(f.wait_for(std::chrono::milliseconds(10)));
  gate_.set(0);
  EXPECT_EQ(f.get(), 5);
}

future<int> copies(node a) {
  const buffer<int> memory = a.allocate<int>(3);
  const std::vector<int> sent{1, 2, 3};
  std::vector<int> got(3);
  co_await put(sent, memory);
  co_await async(
      a,
      [](remote_span<int> s) {
        for (int& v : s)
          v *= 2;
      },
      memory.span());
  co_await get(memory, got);
  co_return got[0] + got[1] + got[2];
}

TEST_F(coroutines, await_copies) { EXPECT_EQ(copies(target_).get(), 12); }

future<int> awaits_all(node a, node b) {
  auto [x, y] = co_await when_all(async(a, twice, 1), async(b, twice, 2));
  std::vector<future<int>> more;
  for (int i = 0; i < 10; ++i)
    more.push_back(async(i % 2 == 0 ? a : b, twice, i));
  int sum = x.get() + y.get();
  for (auto& f : co_await when_all(std::move(more)))
    sum += f.get();
  co_return sum;
}

TEST_F(coroutines, await_combinations) { EXPECT_EQ(awaits_all(target_, other_).get(), 96); }

struct slow_to_go {
  explicit slow_to_go(std::atomic<bool>& flag) : gone(&flag) {}
  slow_to_go(const slow_to_go&) = delete;
  slow_to_go& operator=(const slow_to_go&) = delete;
  ~slow_to_go() {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    *gone = true;
  }
  std::atomic<bool>* gone;
};

future<int> has_locals(node a, std::atomic<bool>& gone) {
  const slow_to_go local(gone);
  co_return co_await async(a, twice, 4);
}

TEST_F(coroutines, have_lost_their_locals_when_their_future_is_ready) {
  std::atomic<bool> gone{false};
  future<int> f = has_locals(target_, gone);
  // Resumed by another thread.
  std::thread resuming([&] {
    while (!f.test())
      std::this_thread::yield();
  });
  resuming.join();
  EXPECT_TRUE(gone);
  EXPECT_EQ(f.get(), 8);
}

future<int> over_two_jobs(node a, node b) {
  const int one = co_await async(a, twice, 1);
  co_return co_await async(b, twice, one);
}

TEST_F(coroutines, over_two_jobs_are_refused) {
  const job another(with_targets("shm"));
  EXPECT_THAT(
      text_thrown_by<error>([&] { (void)over_two_jobs(target_, another.targets()[0]).get(); }),
      HasSubstr("different jobs"));
}

TEST_F(coroutines, with_then) {
  future<int> f = sum_of_two(target_, other_).then([](future<int> v) { return v.get() + 1; });
  EXPECT_EQ(f.get(), 7);
}

TEST_F(coroutines, many_at_once) {
  std::vector<future<int>> all;
  for (int i = 0; i < 1000; ++i)
    all.push_back(sum_of_two(target_, other_));
  for (auto& f : all)
    EXPECT_EQ(f.get(), 6);
}

TEST_F(coroutines, dropped_while_they_wait_still_end) {
  auto alive = std::make_shared<int>(1);
  const auto keeps = [](node a, handshake::words words, std::shared_ptr<int> kept) -> future<int> {
    const int v = co_await async(a, held, words, 1);
    co_return v + *kept;
  };
  (void)keeps(target_, gate_.span(), alive);
  EXPECT_EQ(alive.use_count(), 2);
  gate_.set(0);
  while (alive.use_count() > 1)
    (void)sync(target_, twice, 1);
  SUCCEED();
}

TEST_F(coroutines, waited_for_by_another_thread) {
  future<int> f = outer(target_, gate_.span());
  int got = 0;
  std::thread waiting([&] { got = f.get(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate_.set(0);
  waiting.join();
  EXPECT_EQ(got, 11);
}

/// A coroutine type of the program.
struct detached {
  struct promise_type {
    detached get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

detached foreign(future<int> f, int& result) { result = co_await std::move(f); }

TEST_F(coroutines, await_from_other_coroutine_types) {
  int result = 0;
  const detached d = foreign(async(target_, twice, 4), result);
  while (!d.handle.done())
    (void)sync(target_, twice, 1);
  EXPECT_EQ(result, 8);
  d.handle.destroy();
}

TEST_F(coroutines, destroyed_while_they_wait_are_not_resumed) {
  int result = 0;
  const detached d = foreign(async(target_, held, gate_.span(), 4), result);
  EXPECT_FALSE(d.handle.done());
  d.handle.destroy();
  gate_.set(0);
  EXPECT_EQ(sync(target_, twice, 1), 2);
  EXPECT_EQ(result, 0);
}

// ---- deadlines ----------------------------------------------------------------------------------

constexpr std::chrono::milliseconds soon{20};
constexpr int too_late = -2;

future<int> until_its_deadline(future<int> f) {
  try {
    co_return co_await std::move(f);
  } catch (const timeout&) {
    co_return too_late;
  }
}

TEST_F(coroutines, go_on_at_the_deadline_of_a_call) {
  EXPECT_EQ(until_its_deadline(async(target_.within(wait_limit), twice, 3)).get(), 6);
  EXPECT_EQ(until_its_deadline(async(target_.within(soon), held, gate_.span(), 1)).get(), too_late);
  EXPECT_EQ(until_its_deadline(async(target_, held, gate_.span(), 1).within(soon)).get(), too_late);
  gate_.set(0);
  EXPECT_EQ(until_its_deadline(async(target_, held, gate_.span(), 1)).get(), 1);
}

TEST_F(coroutines, say_what_did_not_come_by_the_deadline) {
  const auto fails = [](future<int> f) -> future<int> { co_return co_await std::move(f); };
  future<int> f = fails(async(target_.within(soon), held, gate_.span(), 1));
  EXPECT_THAT(text_thrown_by<timeout>([&] { (void)f.get(); }), HasSubstr("node 1"));
  gate_.set(0);
}

TEST_F(coroutines, go_on_at_a_deadline_although_nobody_waits) {
  std::atomic<int> result{0};
  const auto writes = [](future<int> f, std::atomic<int>& to) -> future<void> {
    to = co_await until_its_deadline(std::move(f));
  };
  const future<void> f = writes(async(target_.within(soon), held, gate_.span(), 1), result);
  EXPECT_TRUE(eventually([&] { return result == too_late; }));
  gate_.set(0);
}

TEST_F(coroutines, may_wait_again_for_what_is_late) {
  const auto twice_late = [](node a, node b, handshake::words words) -> future<int> {
    const int first = co_await until_its_deadline(async(a.within(soon), held, words, 1));
    // Runs on a thread of the library, which may wait.
    const int second = sync(b, twice, first);
    const int third = co_await until_its_deadline(async(a.within(soon), held, words, 1));
    co_return second + third;
  };
  EXPECT_EQ(twice_late(target_, other_, gate_.span()).get(), 3 * too_late);
  gate_.set(0);
}

TEST_F(coroutines, on_targets_have_deadlines) {
  EXPECT_EQ(sync(
                target_.within(wait_limit),
                [](node other, handshake::words words) {
                  // The first call between two nodes introduces them, which takes time.
                  sync(other, [] {});
                  return until_its_deadline(async(other.within(soon), held_there, words));
                },
                other_, gate_.span()),
            too_late);
  gate_.set(0);
}

TEST_F(coroutines, have_deadlines_for_shared_results) {
  const auto waits = [](shared_future<int> f) -> future<int> {
    try {
      co_return co_await f;
    } catch (const timeout&) {
      co_return too_late;
    }
  };
  const shared_future<int> f = async(target_, held, gate_.span(), 5).share();
  future<int> patient = waits(f);
  future<int> hurried = waits(f.within(soon));
  EXPECT_EQ(hurried.get(), too_late);
  gate_.set(0);
  EXPECT_EQ(patient.get(), 5);
  EXPECT_EQ(waits(f.within(soon)).get(), 5) << "it is there";
}

TEST_F(coroutines, have_deadlines_for_tasks) {
  std::atomic<int> ended{0};
  const auto works = [](node a, handshake::words words, std::atomic<int>& at_end) -> task<int> {
    const int v = co_await async(a, held, words, 7);
    ++at_end;
    co_return v;
  };
  const auto waits = [](task<int> t) -> future<int> {
    try {
      co_return co_await std::move(t);
    } catch (const timeout&) {
      co_return too_late;
    }
  };
  EXPECT_EQ(waits(works(target_, gate_.span(), ended).within(soon)).get(), too_late);
  EXPECT_EQ(ended, 0);
  gate_.set(0);
  EXPECT_EQ(waits(works(target_, gate_.span(), ended).within(wait_limit)).get(), 7);
  EXPECT_TRUE(eventually([&] { return sync(target_, twice, 1) == 2 && ended == 2; }))
      << "what was begun goes on";
}

TEST_F(coroutines, take_a_result_or_a_deadline_never_both) {
  int results = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::chrono::microseconds brief(i % 60);
    const int got = until_its_deadline(async(target_.within(brief), twice, 2)).get();
    ASSERT_TRUE(got == 4 || got == too_late) << got;
    results += got == 4 ? 1 : 0;
  }
  RecordProperty("results", results);
}

TEST_F(coroutines, destroyed_before_their_deadline_are_not_resumed) {
  int result = 0;
  // Longer than any delay of the thread that destroys it.
  const std::chrono::seconds deadline(1);
  const detached waiting = foreign(async(target_.within(deadline), held, gate_.span(), 4), result);
  waiting.handle.destroy();
  std::this_thread::sleep_for(deadline + soon);
  gate_.set(0);
  EXPECT_EQ(sync(target_, twice, 1), 2);
  EXPECT_EQ(result, 0);
}

TEST(coroutines_without_a_job, have_deadlines) {
  promise<int> never;
  EXPECT_EQ(until_its_deadline(never.get_future().within(soon)).get(), too_late);
  promise<int> soon_enough;
  future<int> f = until_its_deadline(soon_enough.get_future().within(wait_limit));
  soon_enough.set_value(8);
  EXPECT_EQ(f.get(), 8);
}

TEST(coroutines_at_the_end_of_a_job, see_it_and_not_their_deadline) {
  job_options options = with_targets("shm");
  options.stop_timeout = std::chrono::milliseconds(100);
  std::optional<job> j(options);
  const handshake gate(j->targets()[0]);
  future<int> f =
      until_its_deadline(async(j->targets()[0].within(wait_limit), held, gate.span(), 4));
  j.reset();
  EXPECT_THROW((void)f.get(), node_failed);
}

} // namespace
} // namespace farcall::test::coroutine_test
