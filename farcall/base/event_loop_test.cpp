// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/event_loop.hpp>
#include <tests/refused_calls.hpp>
#include <tests/stress.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::event_loop_test {
namespace {

using ::testing::ElementsAre;

TEST(event_loop_without_thread, a_turn_runs_due_work) {
  event_loop loop;
  std::vector<std::string> done;
  const time_point now = clock::now();
  loop.at(now + std::chrono::hours(1), [&] { done.emplace_back("later"); });
  loop.at(now, [&] { done.emplace_back("due"); });
  loop.post([&] {
    done.emplace_back("posted");
    loop.post([&] { done.emplace_back("posted then"); });
  });
  EXPECT_THAT(done, ElementsAre());
  loop.turn(now);
  EXPECT_THAT(done, ElementsAre("posted", "due"));
  loop.turn(now);
  EXPECT_THAT(done, ElementsAre("posted", "due", "posted then"));
  loop.turn(now + std::chrono::hours(1));
  EXPECT_EQ(done.back(), "later");
}

TEST(event_loop_without_thread, calls_handlers_of_ready_descriptors) {
  event_loop loop;
  const unique_fd ready(::eventfd(1, EFD_CLOEXEC));
  const unique_fd silent(::eventfd(0, EFD_CLOEXEC));
  int calls = 0;
  int wrong_calls = 0;
  loop.add(ready.get(), EPOLLIN, std::make_shared<function_handler>([&] { ++calls; }));
  loop.add(silent.get(), EPOLLIN, std::make_shared<function_handler>([&] { ++wrong_calls; }));
  loop.turn(clock::now());
  loop.turn(clock::now());
  EXPECT_EQ(calls, 2);
  loop.remove(ready.get());
  loop.turn(clock::now());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(wrong_calls, 0);
}

TEST(embedded_event_loop, works_in_a_turn_of_the_parent) {
  const auto parent = std::make_shared<event_loop>();
  event_loop loop(parent);
  const unique_fd ready(::eventfd(1, EFD_CLOEXEC));
  std::vector<std::string> done;
  loop.add(ready.get(), EPOLLIN | EPOLLONESHOT,
           std::make_shared<function_handler>([&] { done.emplace_back("ready"); }));
  loop.post([&] { done.emplace_back("posted"); });
  loop.at(clock::now(), [&] { done.emplace_back("due"); });
  EXPECT_THAT(done, ElementsAre());
  parent->turn(clock::now());
  EXPECT_THAT(done, ElementsAre("ready", "posted", "due"));
}

TEST(embedded_event_loop, wakes_the_parent_for_the_earliest_time) {
  const auto parent = std::make_shared<event_loop>("farcall-loop");
  event_loop loop(parent);
  std::vector<std::string> done;
  std::promise<void> all_done;
  const time_point now = clock::now();
  loop.at(now + std::chrono::hours(1), [&] { done.emplace_back("in an hour"); });
  loop.at(now + std::chrono::milliseconds(20), [&] {
    done.emplace_back("second");
    all_done.set_value();
  });
  loop.at(now + std::chrono::milliseconds(10), [&] { done.emplace_back("first"); });
  ASSERT_EQ(all_done.get_future().wait_for(test::wait_limit), std::future_status::ready);
  loop.stop();
  EXPECT_THAT(done, ElementsAre("first", "second"));
}

TEST(embedded_event_loop, has_one_thread_with_the_parent) {
  const auto parent = std::make_shared<event_loop>("farcall-loop");
  event_loop loop(parent);
  std::thread::id of_parent;
  std::thread::id of_loop;
  parent->post([&] { of_parent = std::this_thread::get_id(); });
  loop.post([&] { of_loop = std::this_thread::get_id(); });
  parent->drain();
  loop.drain();
  EXPECT_EQ(of_loop, of_parent);
  EXPECT_NE(of_loop, std::this_thread::get_id());
}

TEST(embedded_event_loop, ends_with_all_its_handlers) {
  const auto parent = std::make_shared<event_loop>("farcall-loop");
  const unique_fd ready(::eventfd(0, EFD_CLOEXEC));
  const auto held = std::make_shared<int>(0);
  {
    event_loop loop(parent);
    loop.add(ready.get(), EPOLLIN, std::make_shared<function_handler>([held] { ++*held; }));
    loop.at(clock::now() + std::chrono::hours(1), [held] { ++*held; });
    loop.drain();
    EXPECT_EQ(held.use_count(), 3);
  }
  EXPECT_EQ(held.use_count(), 1);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(ready.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  parent->drain();
  EXPECT_EQ(*held, 0);
}

TEST(embedded_event_loop, waits_at_its_end_for_a_function_that_runs) {
  const auto parent = std::make_shared<event_loop>("farcall-loop");
  auto loop = std::make_unique<event_loop>(parent);
  std::promise<void> has_begun;
  std::atomic<bool> has_returned{false};
  loop->post([&] {
    has_begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    has_returned.store(true);
  });
  has_begun.get_future().wait();
  loop.reset();
  EXPECT_TRUE(has_returned.load());
}

/// The timer is due repeatedly, so that the loop's end coincides with a run that sets the next
/// time.
TEST(embedded_event_loop, ends_while_timers_expire) {
  const auto parent = std::make_shared<event_loop>("farcall-loop");
  for (std::uint64_t round = 0; round < test::stress_rounds(10'000, 500); ++round) {
    std::function<void()> again;
    event_loop loop(parent);
    again = [&] { loop.at(clock::now(), again); };
    loop.post(again);
    if (round % 2 == 0) std::this_thread::yield();
  }
}

#ifdef SYS_epoll_pwait2
class event_loop_without_epoll_pwait2 : public testing::TestWithParam<int> {};

TEST_P(event_loop_without_epoll_pwait2, calls_handlers_of_ready_descriptors) {
  int calls = 0;
  // The seccomp filter applies to this thread only.
  std::jthread([&] {
    test::refuse_system_call(SYS_epoll_pwait2, GetParam());
    event_loop loop;
    const unique_fd ready(::eventfd(1, EFD_CLOEXEC));
    loop.add(ready.get(), EPOLLIN, std::make_shared<function_handler>([&] { ++calls; }));
    loop.turn(clock::now());
  }).join();
  EXPECT_EQ(calls, 1);
}

INSTANTIATE_TEST_SUITE_P(refused_with, event_loop_without_epoll_pwait2,
                         testing::Values(ENOSYS, EPERM),
                         [](const auto& of) { return of.param == EPERM ? "EPERM" : "ENOSYS"; });
#endif

} // namespace
} // namespace farcall::event_loop_test
