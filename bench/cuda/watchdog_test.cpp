#include "watchdog.hpp"

#include <gtest/gtest.h>

namespace farcall::bench {
namespace {

using namespace std::chrono_literals;

class watchdog_death_test : public ::testing::Test {
 protected:
  // The process has other threads.
  watchdog_death_test() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(watchdog_death_test, what_hangs_is_named_and_the_process_ends) {
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

TEST_F(watchdog_death_test, who_does_not_know_more_is_not_waited_for) {
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
      ::testing::ExitedWithCode(watchdog::exit_status), "worker 0: running\nno more is to be");
}

TEST(watchdog, whatever_goes_on_is_left_alone) {
  watchdog w(2s);
  for (int i = 0; i < 60; ++i) {
    w.tick();
    std::this_thread::sleep_for(50ms);
  }
  w.expect("something long", 1h);
}

} // namespace
} // namespace farcall::bench
