// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/meetings.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::meetings_test {
namespace {

using test::wait_limit;

const auto is_unknown = [] { return false; };
const auto ask_nothing = [] {};

time_point later() { return clock::now() + wait_limit; }

TEST(meetings, one_of_several_threads_asks) {
  meetings all;
  std::atomic<unsigned> questions{0};
  std::atomic<unsigned> looks{0};
  std::atomic<bool> is_known{false};
  std::vector<std::jthread> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&] {
      bool has_looked = false;
      const meetings::result r = all.wait(
          3, later(),
          [&] {
            if (!std::exchange(has_looked, true)) ++looks;
            return is_known.load();
          },
          [&] { ++questions; });
      EXPECT_TRUE(is_known);
      EXPECT_FALSE(r.is_absent);
      EXPECT_EQ(r.failure, "");
    });
  }
  ASSERT_TRUE(test::eventually([&] { return looks == 4; }));
  is_known = true;
  all.note_known();
  waiting.clear();
  EXPECT_EQ(questions, 1U);
}

TEST(meetings, a_reply_may_come_before_the_wait) {
  meetings all;
  std::atomic<bool> is_known{false};
  const meetings::result r = all.wait(
      3, later(), [&] { return is_known.load(); },
      [&] {
        is_known = true;
        all.note_known();
      });
  EXPECT_FALSE(r.is_absent);
  EXPECT_EQ(r.failure, "");
}

TEST(meetings, an_absent_node_ends_the_wait_for_it) {
  meetings all;
  const auto say_absent = [&] {
    all.note_absence(4);
    all.note_absence(3);
  };
  EXPECT_TRUE(all.wait(3, later(), is_unknown, say_absent).is_absent);
}

TEST(meetings, an_absent_node_may_come_later) {
  meetings all;
  (void)all.wait(3, later(), is_unknown, [&] { all.note_absence(3); });
  bool has_asked = false;
  const meetings::result r =
      all.wait(3, later(), [&] { return has_asked; }, [&] { has_asked = true; });
  EXPECT_TRUE(has_asked);
  EXPECT_FALSE(r.is_absent);
}

TEST(meetings, a_failed_node_ends_all_waits_for_it) {
  meetings all;
  EXPECT_EQ(all.wait(3, later(), is_unknown, [&] { all.note_failure(3, "it broke"); }).failure,
            "it broke");
  EXPECT_EQ(all.wait(3, later(), is_unknown, ask_nothing).failure, "it broke");
  EXPECT_EQ(all.wait(4, clock::now(), is_unknown, ask_nothing).failure, "");
}

TEST(meetings, the_end_of_the_job_ends_all_waits) {
  meetings all;
  std::jthread waiting([&] {
    EXPECT_EQ(all.wait(3, later(), is_unknown, ask_nothing).failure, "the job is ending");
  });
  all.end();
  waiting.join();
  EXPECT_EQ(all.wait(4, later(), is_unknown, ask_nothing).failure, "the job is ending");
}

TEST(meetings, the_deadline_ends_a_wait) {
  meetings all;
  const meetings::result r =
      all.wait(3, clock::now() + std::chrono::milliseconds(1), is_unknown, ask_nothing);
  EXPECT_FALSE(r.is_absent);
  EXPECT_EQ(r.failure, "");
}

} // namespace
} // namespace farcall::meetings_test
