// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/coroutine.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include <pthread.h>
#include <unistd.h>

/// Functions that end the thread on which farcall runs them.
namespace farcall::test::thread_end_test {
namespace {

using ::testing::HasSubstr;

class thread_ends : public ::testing::Test {
 protected:
  /// Returns the text of the error that a call throws. Its target must survive the call.
  std::string error_of(int (*f)(int)) {
    const pid_t before = sync(target_, ::getpid);
    const auto e = thrown_by<remote_error>([&] { (void)sync(target_, f, 1); });
    EXPECT_EQ(sync(target_, ::getpid), before);
    return e ? e->what() : "";
  }

  job job_{with_targets("shm")};
  node target_ = job_.targets().front();
};

std::atomic<int> ended_scopes{0};

struct scope {
  ~scope() { ++ended_scopes; }
};

int exits_thread(int /*n*/) {
  const scope ends;
  ::pthread_exit(nullptr);
}

/// Imitates pthread_cancel() by another thread, in a handler that cancels its own thread.
int is_cancelled(int /*n*/) {
  const scope ends;
  ::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  ::pthread_cancel(::pthread_self());
  ::pthread_testcancel();
  return 0;
}

int is_cancelled_in_vain(int n) {
  ::pthread_cancel(::pthread_self());
  ::pthread_testcancel();
  return n;
}

int scopes_ended(int /*n*/) { return ended_scopes.load(); }

TEST_F(thread_ends, pthread_exit_ends_the_call_alone) {
  for (int n = 1; n <= 3; ++n) {
    EXPECT_THAT(error_of(exits_thread), HasSubstr("pthread_exit() or a cancellation"));
    EXPECT_EQ(sync(target_, scopes_ended, 0), n);
  }
}

TEST_F(thread_ends, cancellation_ends_the_call_alone) {
  EXPECT_THAT(error_of(is_cancelled), HasSubstr("pthread_exit() or a cancellation"));
  EXPECT_EQ(sync(target_, scopes_ended, 0), 1);
}

TEST_F(thread_ends, cancellation_waits_for_handlers_that_enable_it) {
  EXPECT_EQ(sync(target_, is_cancelled_in_vain, 7), 7);
  EXPECT_EQ(sync(target_, scopes_ended, 0), 0);
}

TEST_F(thread_ends, posted_calls_end_alone) {
  post(target_, exits_thread, 1);
  EXPECT_EQ(sync(target_, scopes_ended, 0), 1);
}

/// Calls `f` on a new thread, which `f` may try to end.
template <class F>
std::string error_on_a_thread(F f) {
  std::string text = "no error";
  std::thread([&] {
    try {
      f();
    } catch (const error& e) {
      text = e.what();
    }
  }).join();
  return text;
}

TEST_F(thread_ends, continuations_end_their_future) {
  EXPECT_THAT(error_on_a_thread([&] {
                (void)async(target_, scopes_ended, 0)
                    .then([](future<int> ready) { return exits_thread(ready.get()); })
                    .get();
              }),
              HasSubstr("pthread_exit() or a cancellation"));
}

future<int> exits_in_a_coroutine(node target) {
  co_await async(target, scopes_ended, 0);
  ::pthread_exit(nullptr);
}

TEST_F(thread_ends, coroutines_end_their_future) {
  EXPECT_THAT(error_on_a_thread([&] { (void)exits_in_a_coroutine(target_).get(); }),
              HasSubstr("pthread_exit() or a cancellation"));
}

} // namespace
} // namespace farcall::test::thread_end_test
