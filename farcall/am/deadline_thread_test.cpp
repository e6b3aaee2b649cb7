#include <farcall/am/deadline_thread.hpp>
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

namespace farcall::am::deadline_thread_test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::eventually;

/// In which order events happened.
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
  deadline_thread::of_process().prepare();
  deadline_thread::of_process().set(*e, when);
  return e;
}

TEST(deadline_thread, lets_events_happen_in_their_order) {
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
  EXPECT_TRUE(eventually([] { return alive == 0; })) << "it lets go of them";
}

TEST(deadline_thread, wakes_for_one_that_is_earlier) {
  record happened;
  const auto far = set(happened, 1, clock::now() + hours(1));
  (void)set(happened, 2, clock::now());
  EXPECT_TRUE(eventually([&] { return happened.all() == std::vector{2}; }));
  deadline_thread::of_process().take_back(*far);
}

TEST(deadline_thread, gives_back_what_has_not_happened) {
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
    deadline_thread::of_process().take_back(*events[i]);
  ASSERT_TRUE(eventually([&] { return happened.all().size() == wanted.size(); }));
  std::vector<int> found = happened.all();
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, wanted);
  for (const auto& e : events)
    deadline_thread::of_process().take_back(*e); // they are no longer there
  events.clear();
  EXPECT_TRUE(eventually([] { return alive == 0; }));
}

TEST(deadline_thread, runs_continuations_on_another_thread) {
  // One that waits for the next event must not keep it.
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
  deadline_thread& deadlines = deadline_thread::of_process();
  deadlines.prepare();
  deadlines.prepare();
  const time_point now = clock::now();
  deadlines.set(*counted_ptr<runs>(new runs(first)), now);
  deadlines.set(*counted_ptr<sets>(new sets(second)), now + milliseconds(1));
  EXPECT_TRUE(eventually([&] { return first.has_ended.load(); }));
}

TEST(deadline_thread, is_another_in_a_child) {
  record happened;
  const auto far = set(happened, 1, clock::now() + hours(1));
  // A thread that has not come to its sleep may hold a lock of the sanitizer's, which the child
  // would then wait for.
  ASSERT_TRUE(eventually(test::others_sleep));
  const pid_t child = ::fork();
  if (child == 0) {
    deadline_thread::of_process().take_back(*far); // the parent's
    // ThreadSanitizer lets no child of a process with threads have some.
    if (test::under_thread_sanitizer) ::_exit(0);
    (void)set(happened, 2, clock::now());
    ::_exit(eventually([&] { return happened.all() == std::vector{2}; }) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  deadline_thread::of_process().take_back(*far);
  EXPECT_TRUE(happened.all().empty());
}

} // namespace
} // namespace farcall::am::deadline_thread_test
