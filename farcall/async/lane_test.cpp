// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/map.hpp>
#include <farcall/async/stop_token.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::test::lane_test {
namespace {

using ::testing::HasSubstr;

class lanes : public job_test {
 protected:
  lanes() : gate_(target_) {}
  handshake gate_;
};

class workers : public job_test {
 protected:
  workers() : job_test("shm?workers=3"), gate_(target_) {}
  handshake gate_;
};

/// Sets its own word and waits until another call has set the other one: ends in time only if the
/// two run side by side.
bool meet(handshake::words words, std::size_t mine, std::size_t other) {
  handshake::set(words.local(), mine, 1);
  return handshake::wait(words.local(), other, 1);
}

std::uint32_t next_number(handshake::words words, std::size_t i) {
  return handshake::add(words.local(), i);
}

pid_t thread_number() { return ::gettid(); }

/// Returns the signals that the calling thread blocks.
std::vector<int> blocked_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
  std::vector<int> blocked;
  for (int s = 1; s <= SIGRTMAX; ++s) {
    if (::sigismember(&set, s) == 1) blocked.push_back(s);
  }
  return blocked;
}

TEST_F(lanes, take_calls) {
  const lane stream(target_);
  EXPECT_EQ(stream.where(), target_);
  EXPECT_EQ(sync(stream, [](int v) { return v + 1; }, 1), 2);
  EXPECT_EQ(async(stream, ::getpid).get(), sync(target_, ::getpid));
  post(stream, next_number, gate_.span(), std::size_t{0});
  EXPECT_EQ(sync(stream, next_number, gate_.span(), std::size_t{0}), 2U);
  EXPECT_EQ(sync(
                stream, [](std::vector<int> v) { return v; }, std::vector<int>(100'000, 3)),
            std::vector<int>(100'000, 3));
  EXPECT_THROW((void)sync(stream, []() -> int { throw std::runtime_error("x"); }), remote_error);
}

TEST_F(lanes, that_were_moved_from_say_so) {
  lane from(target_);
  const lane to(std::move(from));
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
  EXPECT_THAT(text_thrown_by<error>([&] { (void)sync(from, [] { return 1; }); }),
              HasSubstr("moved from"));
  EXPECT_EQ(sync(to, [] { return 2; }), 2);
}

TEST_F(lanes, block_no_other_signals_than_the_targets_main_thread) {
  const std::vector<int> of_main = sync(target_, blocked_signals);
  EXPECT_EQ(std::ranges::count(of_main, SIGTERM), 0);
  EXPECT_EQ(sync(lane(target_), blocked_signals), of_main);
  // Handlers of the host leave signals to the program.
  const std::vector<int> of_host =
      sync(target_, [](const node& host) { return sync(host, blocked_signals); }, job_.host());
  EXPECT_EQ(std::ranges::count(of_host, SIGTERM), 1);
}

TEST_F(lanes, run_in_order) {
  const lane stream(target_);
  std::vector<future<std::uint32_t>> all;
  for (int i = 0; i < 5000; ++i) {
    all.push_back(async(stream, next_number, gate_.span(), std::size_t{0}));
  }
  for (std::uint32_t i = 0; i < 5000; ++i)
    EXPECT_EQ(all[i].get(), i + 1);
}

TEST_F(lanes, run_side_by_side) {
  const lane first(target_);
  const lane second(target_);
  future<bool> a = async(first, meet, gate_.span(), std::size_t{0}, std::size_t{1});
  future<bool> b = async(second, meet, gate_.span(), std::size_t{1}, std::size_t{0});
  EXPECT_TRUE(a.get());
  EXPECT_TRUE(b.get());
}

TEST_F(lanes, run_beside_the_threads_own_lane) {
  const lane stream(target_);
  future<bool> a = async(stream, meet, gate_.span(), std::size_t{0}, std::size_t{1});
  EXPECT_TRUE(sync(target_, meet, gate_.span(), std::size_t{1}, std::size_t{0}));
  EXPECT_TRUE(a.get());
}

TEST_F(lanes, have_a_worker_of_their_own) {
  const lane first(target_);
  const lane second(target_);
  const pid_t one = sync(first, thread_number);
  EXPECT_EQ(sync(first, thread_number), one);
  EXPECT_NE(sync(second, thread_number), one);
  EXPECT_NE(sync(target_, thread_number), one);
}

TEST_F(lanes, sixteen_at_once) {
  std::vector<lane> all;
  std::vector<future<bool>> done;
  const auto wait_for_all = [](handshake::words words) {
    handshake::add(words.local(), 0);
    return handshake::wait(words.local(), 0, 16);
  };
  for (int i = 0; i < 16; ++i)
    all.emplace_back(target_);
  for (const lane& l : all)
    done.push_back(async(l, wait_for_all, gate_.span()));
  for (auto& f : done)
    EXPECT_TRUE(f.get());
}

TEST_F(lanes, may_end_before_their_calls) {
  future<bool> pending;
  {
    const lane stream(target_);
    pending = async(
        stream, [](handshake::words w) { return handshake::wait(w.local(), 0, 1); }, gate_.span());
    for (int i = 0; i < 100; ++i)
      post(stream, next_number, gate_.span(), std::size_t{1});
  }
  EXPECT_FALSE(pending.test());
  gate_.set(0);
  EXPECT_TRUE(pending.get());
  EXPECT_TRUE(gate_.wait(1, 100)) << "calls of a lane that has ended were lost";
}

TEST_F(lanes, can_be_moved) {
  lane first(target_);
  lane second(std::move(first));
  EXPECT_EQ(sync(second, ::getpid), sync(target_, ::getpid));
  lane third(target_);
  third = std::move(second);
  EXPECT_EQ(sync(third, ::getpid), sync(target_, ::getpid));
}

TEST_F(lanes, are_given_back) {
  // Far more lanes than a target has at a time.
  for (int i = 0; i < 400; ++i) {
    const lane stream(target_);
    ASSERT_EQ(sync(stream, [](int v) { return v; }, i), i);
  }
}

/// Fewer under a sanitizer: each lane's thread on the target takes long to start.
constexpr int many = under_sanitizer ? 1000 : 10'000;

TEST_F(lanes, can_be_opened_and_closed_for_ever) {
  for (int i = 0; i < many; ++i) {
    const lane stream(target_);
    if (i % 3 == 0) post(stream, next_number, gate_.span(), std::size_t{0});
    // A dropped future.
    if (i % 3 == 1) (void)async(stream, next_number, gate_.span(), std::size_t{0});
  }
  EXPECT_TRUE(gate_.wait(0, static_cast<std::uint32_t>((many + 2) / 3 + (many + 1) / 3)));
}

TEST_F(lanes, are_waited_for_until_the_deadline) {
  std::vector<lane> all;
  for (int i = 0; i < 100; ++i)
    all.emplace_back(target_);
  // The target cannot reclaim these lanes before their handlers end.
  for (int i = 0; i < 150; ++i) {
    const lane stream(target_);
    post(stream, [](handshake::words w) { (void)handshake::wait(w.local(), 0, 1); }, gate_.span());
  }
  const std::string text = text_thrown_by<timeout>([&] {
    for (int i = 0; i < 10; ++i)
      all.emplace_back(target_.within(std::chrono::milliseconds(50)));
  });
  EXPECT_THAT(text, HasSubstr("node 1"));
  gate_.set(0);
  const lane late(target_);
  EXPECT_EQ(sync(late, [] { return 5; }), 5);
}

TEST_F(lanes, have_deadlines_for_calls_that_wait_for_space) {
  const lane stream(target_);
  sync(stream.within(wait_limit), [] {});
  {
    stopped_target stopped(target_);
    EXPECT_TRUE(ends(
        [&] {
          const auto e = thrown_by<timeout>([&] {
            for (;;)
              post(stream.within(std::chrono::milliseconds(30)), [] {});
          });
          ASSERT_TRUE(e);
          EXPECT_EQ(e->node(), target_.id());
          EXPECT_THROW((void)async(stream.within(std::chrono::milliseconds(30)), [] {}), timeout);
        },
        [&] { stopped.resume(); }));
  }
  EXPECT_EQ(sync(stream.within(wait_limit), [](int v) { return v + 1; }, 1), 2);
}

TEST_F(lanes, have_deadlines_for_results) {
  const lane stream(target_);
  future<bool> late = async(stream.within(std::chrono::milliseconds(30)), meet, gate_.span(),
                            std::size_t{0}, std::size_t{1});
  EXPECT_THROW((void)late.get(), timeout);
  gate_.set(1);
  EXPECT_TRUE(late.within(wait_limit).get());
  const std::vector<int> mapped =
      map(stream.within(wait_limit), [](int v) { return 2 * v; }, std::vector<int>(3, 4)).get();
  EXPECT_EQ(mapped, std::vector<int>(3, 8));
  lane from(target_);
  const lane to(std::move(from));
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
  EXPECT_THAT(text_thrown_by<error>([&] { sync(from.within(wait_limit), [] {}); }),
              HasSubstr("moved from"));
}

TEST_F(lanes, stop_calls_that_are_late) {
  const lane stream(target_);
  const auto until_stopped = [](handshake::words words) {
    handshake::set(words.local(), 0, 1);
    const call_stop_token stop = stop_token_of_call();
    const bool is_stopped = eventually([&] { return stop.stop_requested(); });
    handshake::set(words.local(), 1, is_stopped ? 1 : 2);
  };
  {
    future<void> late =
        async(stream.within(std::chrono::milliseconds(30)), until_stopped, gate_.span());
    EXPECT_THROW(late.get(), timeout);
  }
  // A call that had not begun is not run.
  sync(stream, [] {});
  EXPECT_EQ(gate_.get(1), gate_.get(0)) << "it began, and was not stopped";
}

TEST_F(lanes, closed_with_calls_held_are_not_waited_for) {
  std::vector<future<int>> held;
  const std::string text = text_thrown_by<error>([&] {
    for (int i = 0; i < 300; ++i) {
      const lane stream(target_);
      held.push_back(async(stream, [](int v) { return v; }, i));
    }
  });
  EXPECT_THAT(text, HasSubstr("no lane left"));
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i].get(), static_cast<int>(i));
  const lane again(target_);
}

TEST_F(lanes, reclaimed_after_their_handlers_called_back) {
  // More lanes than a node has, in both directions.
  for (int i = 0; i < 300; ++i) {
    const lane stream(target_);
    ASSERT_EQ(sync(stream, [] { return sync(host(), [] { return 5; }); }), 5);
  }
}

TEST_F(lanes, more_than_a_target_has_is_an_error) {
  std::vector<lane> all;
  const std::string text = text_thrown_by<error>([&] {
    for (int i = 0; i < 300; ++i)
      all.emplace_back(target_);
  });
  EXPECT_THAT(text, HasSubstr("256"));
  EXPECT_THAT(text, HasSubstr("node 1"));
  EXPECT_GE(all.size(), 250U);
  // Open lanes keep working, and reclaimed lanes can be opened again.
  EXPECT_EQ(sync(all.back(), [] { return 7; }), 7);
  EXPECT_EQ(sync(target_, [] { return 7; }), 7);
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  for (int i = 0; i < 100; ++i) {
    const lane again(target_.within(wait_limit));
    ASSERT_EQ(sync(again, [] { return 8; }), 8);
  }
}

TEST_F(lanes, far_more_than_doorbells) {
  // Workers of several lanes sleep on one doorbell.
  std::vector<lane> all;
  for (int i = 0; i < 200; ++i)
    all.emplace_back(target_);
  for (std::size_t round = 0; round < 3; ++round) {
    // Longer than a worker spins.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(sync(all[i], [](std::size_t v) { return v; }, i), i);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // The first of two on a doorbell waits inside a handler for the second.
    const std::size_t first = 2 * round;
    future<bool> a = async(all[0], meet, gate_.span(), first, first + 1);
    future<bool> b = async(all[128], meet, gate_.span(), first + 1, first);
    EXPECT_TRUE(a.get());
    EXPECT_TRUE(b.get());
  }
}

TEST_F(lanes, shared_by_threads) {
  const lane stream(target_);
  std::vector<std::thread> threads;
  std::vector<std::vector<std::uint32_t>> seen(8);
  for (auto& mine : seen) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        mine.push_back(sync(stream, next_number, gate_.span(), std::size_t{0}));
      }
    });
  }
  for (auto& t : threads)
    t.join();
  std::set<std::uint32_t> all;
  for (const auto& mine : seen) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), 4000U);
  EXPECT_EQ(*all.rbegin(), 4000U);
}

TEST_F(lanes, dropped_inside_a_continuation) {
  // A continuation may itself open, use and drop lanes.
  auto stream = std::make_shared<std::optional<lane>>(std::in_place, target_);
  future<int> f = async(**stream, [] { return 1; }).then([stream, this](future<int> one) {
    stream->reset();
    const lane fresh(target_);
    return one.get() + sync(fresh, [] { return 1; });
  });
  EXPECT_EQ(f.get(), 2);
}

TEST_F(lanes, continuation_found_while_another_lane_ends) {
  for (int i = 0; i < 200; ++i) {
    std::optional<future<int>> f;
    {
      const lane stream(target_);
      f = async(stream, [] { return 1; }).then([this](future<int> one) {
        const lane fresh(target_);
        return one.get() + sync(fresh, [] { return 1; });
      });
      // The reply has arrived by now, unread: ending the lane may take it.
      (void)sync(target_, [] {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        return 0;
      });
    }
    ASSERT_TRUE(f->wait_for(wait_limit));
    ASSERT_EQ(f->get(), 2);
  }
}

TEST_F(lanes, from_the_target_to_the_host) {
  const auto callback = [](const node& host) {
    const lane back(host);
    int sum = 0;
    for (int i = 0; i < 100; ++i)
      sum += sync(back, [](int v) { return v; }, i);
    return sum;
  };
  EXPECT_EQ(sync(target_, callback, job_.host()), 4950);
}

/// A lane that a target keeps open between calls.
std::optional<lane>& kept_lane() {
  static std::optional<lane> kept;
  return kept;
}

TEST_F(lanes, to_the_host_beside_a_host_thread_that_serves) {
  // The worker of the lane sleeps while a waiting thread of the host serves other calls; a later
  // call in the lane must still wake it.
  sync(
      target_, [](const node& host) { (void)sync(kept_lane().emplace(host), [] { return 1; }); },
      job_.host());
  for (int i = 0; i < 20; ++i) {
    future<int> f = async(
        target_,
        [](const node& host) {
          // Time for the lane's worker to fall asleep, even on a busy machine.
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          const int served = sync(host, [] { return 1; });
          return served + sync(*kept_lane(), [] { return 1; });
        },
        job_.host());
    ASSERT_TRUE(f.wait_for(std::chrono::seconds(10))) << "the lane's worker was not woken";
    ASSERT_EQ(f.get(), 2);
  }
  sync(target_, [] { kept_lane().reset(); });
}

// ---- workers=N ----------------------------------------------------------------------------------

TEST_F(workers, are_as_many_as_asked_for) { EXPECT_EQ(target_.description().workers, 3U); }

TEST_F(workers, run_calls_of_different_threads_side_by_side) {
  std::vector<std::thread> threads;
  std::atomic<int> met{0};
  // Lanes are assigned to the workers in turn, so three threads' lanes have a worker each.
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      met += sync(
          target_,
          [](handshake::words words) {
            handshake::add(words.local(), 0);
            return handshake::wait(words.local(), 0, 3) ? 1 : 0;
          },
          gate_.span());
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(met, 3);
}

TEST_F(workers, keep_the_order_of_each_thread) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::vector<future<std::uint32_t>> all;
      for (int i = 0; i < 1000; ++i)
        all.push_back(async(target_, next_number, gate_.span(), t));
      for (std::uint32_t i = 0; i < 1000; ++i)
        wrong += all[i].get() == i + 1 ? 0 : 1;
    });
  }
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace farcall::test::lane_test
