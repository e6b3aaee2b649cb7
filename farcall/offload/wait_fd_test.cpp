// SPDX-License-Identifier: Apache-2.0

// job::wait_fd(): a program that sleeps in poll() or epoll_wait() is woken by every completion.

#include <farcall/base/unique_fd.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace farcall::test::wait_fd_test {
namespace {

using std::chrono::milliseconds;

int doubled(int v) { return 2 * v; }

int doubled_later(int v) {
  std::this_thread::sleep_for(milliseconds(2));
  return 2 * v;
}

int own_pid() { return ::getpid(); }

/// Returns true if `fd` is readable within the time.
bool is_readable(int fd, milliseconds within) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, static_cast<int>(within.count())) == 1;
}

class wait_fds : public two_targets_test {
 protected:
  wait_fds() : fd_(job_.wait_fd()) {
    // The descriptor is always readable at first.
    job_.progress();
  }

  /// Sleeps and takes replies until `f` is ready. Returns false if it is not woken in time.
  template <class T>
  [[nodiscard]] bool wait_by_poll(const future<T>& f) {
    while (!detail::future_access::state(f)->ready()) {
      if (!is_readable(fd_, wait_limit)) return false;
      job_.progress();
    }
    return true;
  }

  int fd_;
};

TEST_F(wait_fds, are_readable_until_the_reply_was_taken_in) {
  for (int round = 0; round < 200; ++round) {
    // Replies that come before the thread sleeps again, and after.
    future<int> f = async(target_, round % 2 == 0 ? doubled : doubled_later, round);
    ASSERT_TRUE(is_readable(fd_, wait_limit)) << round;
    ASSERT_TRUE(is_readable(fd_, milliseconds(0))) << "nobody took the reply yet";
    ASSERT_TRUE(wait_by_poll(f)) << round;
    EXPECT_EQ(f.get(), 2 * round);
  }
}

TEST_F(wait_fds, are_not_readable_without_reason) {
  EXPECT_EQ(sync(target_, doubled, 1), 2);
  // The thread that watches for replies may have seen that one late.
  EXPECT_TRUE(eventually([&] {
    job_.progress();
    return !is_readable(fd_, milliseconds(20));
  }));
}

TEST_F(wait_fds, belong_to_the_job) {
  EXPECT_EQ(job_.wait_fd(), fd_);
  EXPECT_NE(::fcntl(fd_, F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(wait_fds, can_be_watched_by_edge) {
  const unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd_, &event), 0);
  constexpr std::size_t window = 16;
  constexpr int calls = 2'000;
  int done = 0;
  int made = 0;
  std::vector<future<int>> open;
  while (done < calls) {
    for (; open.size() < window && made < calls; ++made)
      open.push_back(async(made % 3 == 0 ? other_ : target_, doubled, made));
    ASSERT_EQ(::epoll_wait(epoll.get(), &event, 1, static_cast<int>(wait_limit / milliseconds(1))),
              1)
        << done;
    job_.progress();
    std::erase_if(open, [&](future<int>& f) {
      if (!detail::future_access::state(f)->ready()) return false;
      (void)f.get();
      ++done;
      return true;
    });
  }
}

TEST_F(wait_fds, tell_of_calls_of_other_threads) {
  for (int round = 0; round < 100; ++round) {
    std::optional<future<int>> f;
    std::thread([&] { f.emplace(async(target_, doubled_later, round)); }).join();
    ASSERT_TRUE(wait_by_poll(*f)) << round;
  }
}

TEST_F(wait_fds, tell_of_replies_that_another_thread_took) {
  for (int round = 0; round < 50; ++round) {
    future<int> ours = async(target_, doubled_later, round);
    std::thread waiter([&] {
      // Depends on any reply, so it takes the replies of all threads.
      async(other_, doubled_later, round).then([](future<int> f) { return f.get(); }).wait();
    });
    const bool has_come = wait_by_poll(ours);
    waiter.join();
    ASSERT_TRUE(has_come) << round;
  }
}

TEST_F(wait_fds, tell_of_what_follows_a_call) {
  for (int round = 0; round < 100; ++round) {
    const future<int> last =
        async(target_, doubled, round)
            .then([&](future<int> f) { return async(other_, doubled, f.get()); })
            .then([](future<int> f) { return f.get() + 1; });
    ASSERT_TRUE(wait_by_poll(last)) << round;
  }
}

TEST_F(wait_fds, tell_of_nodes_that_end) {
  const int victim = sync(target_, own_pid);
  const future<int> f = async(
      target_,
      +[](int v) {
        std::this_thread::sleep_for(wait_limit);
        return v;
      },
      1);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  EXPECT_TRUE(wait_by_poll(f));
}

TEST_F(wait_fds, wake_several_threads) {
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const future<int> f = async(target_, doubled, i);
        // Another thread may take both the reply and the signal, which is not given twice.
        while (!detail::future_access::state(f)->ready()) {
          (void)is_readable(fd_, milliseconds(10));
          job_.progress();
        }
        ++done;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(done, 400);
}

TEST(wait_fds_of_jobs, end_with_them) {
  int fd = -1;
  for (int round = 0; round < 8; ++round) {
    job j(with_targets("shm"));
    fd = j.wait_fd();
    if (round % 2 == 0) j.progress();
    if (round % 4 < 2) (void)async(j.targets()[0], doubled_later, 1);
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

} // namespace
} // namespace farcall::test::wait_fd_test
