// SPDX-License-Identifier: Apache-2.0
#include "watchdog.hpp"

#include <gtest/gtest.h>

namespace farcall::bench {
namespace {

using namespace std::chrono_literals;

class watchdog_death_test : public ::testing::Test {
 protected:
  // Required because the process has other threads.
  watchdog_death_test() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(watchdog_death_test, names_the_awaited_step_and_ends_the_process) {
  EXPECT_EXIT(
      {
        watchdog w(1h);
        w.ask([](const watchdog::say& say) { say("worker 0: running"); });
        w.expect("calls: an empty one", 20ms);
        for (;;)
          std::this_thread::sleep_for(1s);
      },
      ::testing::ExitedWithCode(watchdog::exit_status),
      "waiting for: calls: an empty one\nworker 0: running\n");
}

TEST_F(watchdog_death_test, does_not_wait_for_a_diagnosis_that_hangs) {
  EXPECT_EXIT(
      {
        watchdog w(1h);
        w.ask([](const watchdog::say& say) {
          say("worker 0: running");
          for (;;)
            std::this_thread::sleep_for(1s);
        });
        w.expect("calls: an empty one", 20ms);
        for (;;)
          std::this_thread::sleep_for(1s);
      },
      ::testing::ExitedWithCode(watchdog::exit_status), "worker 0: running\nthe diagnosis takes");
}

TEST(watchdog, leaves_a_process_with_progress_alone) {
  watchdog w(2s);
  for (int i = 0; i < 60; ++i) {
    w.tick();
    std::this_thread::sleep_for(50ms);
  }
  w.expect("something long", 1h);
}

} // namespace
} // namespace farcall::bench
