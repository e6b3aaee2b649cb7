// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/timer_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace farcall::timer_queue_test {
namespace {

class numbered final : public timer {
 public:
  explicit numbered(int n) : number(n) { ++alive; }
  ~numbered() override { --alive; }
  const int number;
  inline static int alive = 0;

 private:
  void expire() noexcept override {}
};

time_point at(int n) { return time_point(std::chrono::milliseconds(n)); }

TEST(timer_queues, give_timers_out_by_time) {
  timer_queue queue;
  EXPECT_EQ(queue.next(), no_deadline);
  EXPECT_FALSE(queue.extract_due(no_deadline));
  for (const int n : {5, 1, 4, 2, 3}) {
    queue.reserve();
    queue.add(*counted_ptr<numbered>(new numbered(n)), at(n));
  }
  EXPECT_EQ(queue.next(), at(1));
  EXPECT_FALSE(queue.extract_due(at(0)));
  for (int n = 1; n <= 5; ++n) {
    const counted_ptr<timer> t = queue.extract_due(at(n));
    ASSERT_TRUE(t);
    EXPECT_EQ(static_cast<numbered&>(*t).number, n);
  }
  EXPECT_EQ(queue.next(), no_deadline);
  EXPECT_EQ(numbered::alive, 0);
}

TEST(timer_queues, extract_only_timers_that_they_hold) {
  timer_queue queue;
  timer_queue other;
  other.reserve();
  const counted_ptr<numbered> t(new numbered(1));
  EXPECT_FALSE(queue.extract(*t));
  other.add(*t, at(1));
  EXPECT_FALSE(queue.extract(*t));
  EXPECT_EQ(other.extract(*t).get(), t.get());
  EXPECT_FALSE(other.extract(*t));
}

// Compares the queue with an ordered set.
TEST(timer_queues, agree_with_a_model) {
  std::mt19937 random(7);
  timer_queue queue;
  std::vector<counted_ptr<numbered>> timers;
  std::set<std::pair<time_point, int>> model;
  std::vector<time_point> times(64);
  for (int n = 0; n < 64; ++n) {
    queue.reserve();
    timers.emplace_back(new numbered(n));
  }
  const auto is_set = [&](int n) { return model.count({times[n], n}) != 0; };
  for (int step = 0; step < 20'000; ++step) {
    const int n = static_cast<int>(random() % 64);
    if (random() % 4 == 0) {
      const time_point now = at(static_cast<int>(random() % 1000));
      const counted_ptr<timer> due = queue.extract_due(now);
      ASSERT_EQ(static_cast<bool>(due), !model.empty() && model.begin()->first <= now);
      if (!due) continue;
      const int number = static_cast<numbered&>(*due).number;
      // Timers with equal times come in any order.
      ASSERT_EQ(times[number], model.begin()->first);
      ASSERT_EQ(model.erase({times[number], number}), 1U);
    } else if (is_set(n)) {
      ASSERT_EQ(queue.extract(*timers[n]).get(), timers[n].get());
      model.erase({times[n], n});
    } else {
      times[n] = at(static_cast<int>(random() % 1000));
      queue.add(*timers[n], times[n]);
      model.insert({times[n], n});
    }
    ASSERT_EQ(queue.next(), model.empty() ? no_deadline : model.begin()->first);
  }
}

} // namespace
} // namespace farcall::timer_queue_test
