#include <farcall/transport/tcp/reactor.hpp>
#include <tests/refused_calls.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

namespace farcall::tcp::reactor_test {
namespace {

using ::testing::ElementsAre;

TEST(reactor_without_thread, does_in_a_turn_what_is_due_by_then) {
  reactor loop;
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

TEST(reactor_without_thread, calls_the_handlers_of_what_is_ready) {
  reactor loop;
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

#ifdef SYS_epoll_pwait2
class reactor_without_epoll_pwait2 : public testing::TestWithParam<int> {};

TEST_P(reactor_without_epoll_pwait2, calls_the_handlers_of_what_is_ready) {
  int calls = 0;
  // The filter is for this thread alone.
  std::jthread([&] {
    test::refuse_system_call(SYS_epoll_pwait2, GetParam());
    reactor loop;
    const unique_fd ready(::eventfd(1, EFD_CLOEXEC));
    loop.add(ready.get(), EPOLLIN, std::make_shared<function_handler>([&] { ++calls; }));
    loop.turn(clock::now());
  }).join();
  EXPECT_EQ(calls, 1);
}

INSTANTIATE_TEST_SUITE_P(refused_with, reactor_without_epoll_pwait2, testing::Values(ENOSYS, EPERM),
                         [](const auto& of) { return of.param == EPERM ? "EPERM" : "ENOSYS"; });
#endif

} // namespace
} // namespace farcall::tcp::reactor_test
