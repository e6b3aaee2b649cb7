// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/service_thread.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sched.h>

namespace farcall::service_thread_test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

/// Processes the numbers of a queue in order; each waits for the gate.
class worker {
 public:
  void submit(int number) {
    EXPECT_TRUE(thread.submit([&] { queue.push_back(number); }));
  }
  void open_gate() { gate_.set_value(); }
  [[nodiscard]] std::vector<int> done() {
    const std::lock_guard guard(thread.mutex());
    return done_;
  }

 private:
  time_point work(std::unique_lock<std::mutex>& lock) {
    if (queue.empty()) return no_deadline;
    const int number = queue.front();
    queue.pop_front();
    lock.unlock();
    opened_.wait();
    lock.lock();
    done_.push_back(number);
    return service_thread::at_once;
  }

  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
  std::deque<int> queue;
  std::vector<int> done_;

 public:
  service_thread thread{"farcall-test", [this](auto& lock) { return work(lock); }};
};

TEST(service_threads, start_with_the_first_submission) {
  worker w;
  EXPECT_FALSE(w.thread.has_started());
  EXPECT_TRUE(w.thread.drain(no_deadline)) << "there is nothing to wait for";
  w.open_gate();
  w.submit(1);
  EXPECT_TRUE(w.thread.has_started());
  EXPECT_TRUE(w.thread.drain(no_deadline));
  EXPECT_EQ(w.done(), std::vector{1});
}

/// Returns the processors on which the calling thread may run.
cpu_set_t own_processors() {
  cpu_set_t own;
  CPU_ZERO(&own);
  EXPECT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  return own;
}

TEST(service_threads, run_on_the_processors_of_their_maker) {
  const cpu_set_t before = own_processors();
  cpu_set_t of_thread;
  CPU_ZERO(&of_thread);
  service_thread thread("farcall-test", [&](std::unique_lock<std::mutex>&) {
    of_thread = own_processors();
    return no_deadline;
  });
  std::thread([&] {
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &before))
      --last;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_TRUE(thread.submit([] {}));
  }).join();
  EXPECT_TRUE(thread.drain(no_deadline));
  EXPECT_TRUE(CPU_EQUAL(&of_thread, &before));
}

TEST(service_threads, drain_until_a_deadline) {
  worker w;
  w.submit(1);
  w.submit(2);
  EXPECT_FALSE(w.thread.drain(clock::now() + milliseconds(20)));
  w.open_gate();
  EXPECT_TRUE(w.thread.drain(no_deadline));
  EXPECT_EQ(w.done(), (std::vector{1, 2}));
}

TEST(service_threads, do_what_is_queued_before_they_end) {
  worker w;
  w.submit(1);
  w.submit(2);
  w.open_gate();
  EXPECT_TRUE(w.thread.stop());
  EXPECT_EQ(w.done(), (std::vector{1, 2}));
  EXPECT_FALSE(w.thread.submit([] { FAIL() << "the thread has ended"; }));
  EXPECT_TRUE(w.thread.stop()) << "a second time";
}

TEST(service_threads, are_left_behind_at_a_deadline) {
  auto w = std::make_shared<worker>();
  w->submit(1);
  EXPECT_FALSE(w->thread.stop(clock::now() + milliseconds(20)));
  w->open_gate();
  EXPECT_TRUE(test::eventually([&] { return w->done().size() == 1; }));
  // Leak the object: the thread uses it until it ends, and there is no handle for that end.
  new std::shared_ptr<worker>(w);
}

TEST(service_threads, call_the_step_at_the_time_that_it_names) {
  int calls = 0;
  const time_point wanted = clock::now() + milliseconds(20);
  service_thread thread("farcall-test", [&](std::unique_lock<std::mutex>&) {
    ++calls;
    return clock::now() < wanted ? wanted : no_deadline;
  });
  EXPECT_TRUE(thread.submit([] {}));
  EXPECT_TRUE(thread.drain(no_deadline));
  EXPECT_GE(clock::now(), wanted);
  const std::lock_guard guard(thread.mutex());
  EXPECT_GE(calls, 2);
}

TEST(service_threads, call_the_step_once_more_at_the_end) {
  int calls = 0;
  std::vector<bool> was_last;
  {
    service_thread thread("farcall-test", [&](std::unique_lock<std::mutex>&) {
      ++calls;
      was_last.push_back(thread.is_stopping());
      return clock::now() + hours(1);
    });
    EXPECT_TRUE(thread.submit([] {}));
    EXPECT_TRUE(test::eventually([&] {
      const std::lock_guard guard(thread.mutex());
      return calls == 1;
    }));
  }
  EXPECT_EQ(was_last, (std::vector{false, true}));
}

TEST(service_threads, do_not_wait_for_themselves) {
  std::promise<bool> drained;
  service_thread thread("farcall-test", [&](std::unique_lock<std::mutex>& lock) {
    if (thread.is_stopping()) return no_deadline;
    lock.unlock();
    drained.set_value(thread.drain(no_deadline));
    lock.lock();
    return no_deadline;
  });
  EXPECT_TRUE(thread.submit([] {}));
  EXPECT_TRUE(drained.get_future().get());
}

TEST(service_threads, hand_exceptions_of_the_queue_to_the_submitter) {
  worker w;
  w.open_gate();
  EXPECT_THROW(w.thread.submit([] { throw std::runtime_error("no space"); }), std::runtime_error);
  w.submit(1);
  EXPECT_TRUE(w.thread.drain(no_deadline));
  EXPECT_EQ(w.done(), std::vector{1});
}

TEST(service_threads, take_submissions_of_many_threads) {
  worker w;
  w.open_gate();
  {
    std::vector<std::jthread> submitters;
    for (int t = 0; t < 4; ++t)
      submitters.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i)
          w.submit(t * 500 + i);
      });
  }
  EXPECT_TRUE(w.thread.drain(no_deadline));
  EXPECT_EQ(w.done().size(), 2000U);
}

} // namespace
} // namespace farcall::service_thread_test
