// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/timed_event.hpp>
#include <tests/support.hpp>
#include <tests/threads.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace farcall::am::timed_event_test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::eventually;

/// Numbers of events, in the order in which they happened.
struct record {
  std::mutex mutex;
  std::vector<int> numbers;

  void add(int number) {
    const std::lock_guard guard(mutex);
    numbers.push_back(number);
  }
  [[nodiscard]] std::vector<int> all() {
    const std::lock_guard guard(mutex);
    return numbers;
  }
};

std::atomic<int> alive{0};

class numbered final : public timed_event {
 public:
  numbered(record& to, int number) : timed_event(nullptr), to_(&to), number_(number) { ++alive; }
  ~numbered() override { --alive; }

 private:
  void happen() noexcept override { to_->add(number_); }

  record* to_;
  int number_;
};

counted_ptr<numbered> set(record& to, int number, time_point when) {
  counted_ptr<numbered> e(new numbered(to, number));
  e->set(when);
  return e;
}

TEST(timed_events, happen_in_their_order) {
  record happened;
  const time_point first = clock::now() + milliseconds(20);
  std::vector<int> wanted;
  for (int i = 0; i < 100; ++i) {
    const int number = i * 37 % 100;
    (void)set(happened, number, first + std::chrono::microseconds(number));
    wanted.push_back(i);
  }
  ASSERT_TRUE(eventually([&] { return happened.all().size() == 100; }));
  EXPECT_GE(clock::now(), first);
  EXPECT_EQ(happened.all(), wanted);
  EXPECT_TRUE(eventually([] { return alive == 0; })) << "it releases them";
}

TEST(timed_events, happen_before_later_ones_that_were_set_earlier) {
  record happened;
  const auto far = set(happened, 1, clock::now() + hours(1));
  (void)set(happened, 2, clock::now());
  EXPECT_TRUE(eventually([&] { return happened.all() == std::vector{2}; }));
  far->cancel();
}

TEST(timed_events, do_not_happen_after_they_are_cancelled) {
  record happened;
  const time_point now = clock::now();
  std::vector<counted_ptr<numbered>> events;
  std::vector<int> wanted;
  for (int i = 0; i < 20; ++i) {
    const bool stays = i % 3 != 0;
    const time_point when = now + (stays ? milliseconds(20) : milliseconds(hours(1)));
    events.push_back(set(happened, i, when + std::chrono::microseconds(i * 13 % 20)));
    if (stays) wanted.push_back(i);
  }
  for (std::size_t i = 0; i < 20; i += 3)
    events[i]->cancel();
  ASSERT_TRUE(eventually([&] { return happened.all().size() == wanted.size(); }));
  std::vector<int> found = happened.all();
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, wanted);
  for (const auto& e : events)
    e->cancel(); // have happened or were cancelled before
  events.clear();
  EXPECT_TRUE(eventually([] { return alive == 0; }));
}

TEST(timed_events, run_continuations_on_another_thread) {
  // A continuation that waits for the next event must not delay that event.
  class waits final : public continuation {
   public:
    explicit waits(std::atomic<bool>& until) : until_(&until) {}
    void run() noexcept override {
      has_ended = eventually([this] { return until_->load(); });
    }
    std::atomic<bool> has_ended{false};

   private:
    std::atomic<bool>* until_;
  };
  class runs final : public timed_event {
   public:
    explicit runs(continuation& c) : timed_event(nullptr), c_(&c) {}
    void happen() noexcept override { run_continuation(*c_); }

   private:
    continuation* c_;
  };
  class sets final : public timed_event {
   public:
    explicit sets(std::atomic<bool>& what) : timed_event(nullptr), what_(&what) {}
    void happen() noexcept override { *what_ = true; }

   private:
    std::atomic<bool>* what_;
  };
  std::atomic<bool> second{false};
  waits first(second);
  const time_point now = clock::now();
  counted_ptr<runs>(new runs(first))->set(now);
  counted_ptr<sets>(new sets(second))->set(now + milliseconds(1));
  EXPECT_TRUE(eventually([&] { return first.has_ended.load(); }));
}

/// Runs a continuation that sets a flag, on another thread.
bool runs_a_continuation() {
  class sets final : public continuation {
   public:
    void run() noexcept override { is_set = true; }
    std::atomic<bool> is_set{false};
  };
  class runs final : public timed_event {
   public:
    explicit runs(continuation& c) : timed_event(nullptr), c_(&c) {}
    void happen() noexcept override { run_continuation(*c_); }

   private:
    continuation* c_;
  };
  sets flag;
  counted_ptr<runs>(new runs(flag))->set(clock::now());
  return eventually([&] { return flag.is_set.load(); });
}

TEST(timed_events, are_not_shared_with_a_child) {
  record happened;
  ASSERT_TRUE(runs_a_continuation());
  const auto far = set(happened, 1, clock::now() + hours(1));
  // A thread that has not reached its sleep may hold a lock of the sanitizer, for which the child
  // would then wait.
  ASSERT_TRUE(eventually(test::others_sleep));
  const pid_t child = ::fork();
  if (child == 0) {
    far->cancel(); // the parent's
    // ThreadSanitizer allows no threads in a child of a process with threads.
    if (test::under_thread_sanitizer) ::_exit(0);
    (void)set(happened, 2, clock::now());
    const bool has_happened = eventually([&] { return happened.all() == std::vector{2}; });
    ::_exit(has_happened && runs_a_continuation() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  far->cancel();
  EXPECT_TRUE(happened.all().empty());
}

} // namespace
} // namespace farcall::am::timed_event_test
