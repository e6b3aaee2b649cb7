// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/library_thread.hpp>
#include <tests/support.hpp>
#include <tests/threads.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <string>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::library_thread_test {
namespace {

TEST(library_threads, have_a_name_and_leave_signals_to_others) {
  std::string name;
  sigset_t blocked{};
  library_thread("farcall-test", [&] {
    std::array<char, 16> text{};
    ::pthread_getname_np(::pthread_self(), text.data(), text.size());
    name = text.data();
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  }).join();
  EXPECT_EQ(name, "farcall-test");
  EXPECT_EQ(::sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(::sigismember(&blocked, SIGCHLD), 1);
  EXPECT_EQ(::sigismember(&blocked, SIGSEGV), 0) << "a fault of the thread's own";
}

TEST(library_threads, are_joined_by_their_end_and_by_assignment) {
  std::atomic<int> done{0};
  {
    library_thread t("farcall-test", [&] { ++done; });
    EXPECT_TRUE(t.is_joinable());
    EXPECT_FALSE(t.is_current());
    t = library_thread("farcall-test", [&] { ++done; });
  }
  EXPECT_EQ(done, 2);
}

TEST(library_threads, do_not_join_themselves) {
  std::promise<library_thread*> self;
  std::promise<void> joined;
  library_thread t("farcall-test", [&] {
    library_thread& own = *self.get_future().get();
    EXPECT_TRUE(own.is_current());
    own.join();
    joined.set_value();
  });
  self.set_value(&t);
  joined.get_future().wait();
  EXPECT_TRUE(test::eventually([&] { return !t.is_joinable(); }));
}

TEST(library_threads, are_not_joined_in_a_child) {
  std::promise<void> end;
  library_thread t("farcall-test", [&] { end.get_future().wait(); });
  ASSERT_TRUE(test::eventually(test::others_sleep));
  const pid_t child = ::fork();
  if (child == 0) {
    t.join();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  end.set_value();
}

} // namespace
} // namespace farcall::library_thread_test
