#include <farcall/transport/tcp/lane_checks.hpp>

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace farcall::tcp::lane_checks_test {
namespace {

using std::chrono::milliseconds;

/// A lane whose time the test chooses.
class delivery_watch_test : public testing::Test {
 protected:
  bool is_due(int ms) { return watch_.is_due(own_, begin_ + milliseconds(ms)); }
  bool is_lost(int ms, std::uint64_t received, bool is_full = false) {
    lane_message reply{lane_question::so_far, is_full ? lane_message::full : 0U};
    reply.received = received;
    return watch_.is_lost(reply, own_, limit, begin_ + milliseconds(ms));
  }

  static constexpr milliseconds limit{1500};
  time_point begin_ = time_point{} + std::chrono::hours(10);
  delivery_watch watch_;
  lane_position own_;
};

TEST_F(delivery_watch_test, asks_nothing_while_nothing_was_sent) {
  EXPECT_FALSE(is_due(0));
  EXPECT_FALSE(is_due(10'000));
}

TEST_F(delivery_watch_test, asks_no_more_once_all_has_arrived) {
  own_.sent = 100;
  EXPECT_FALSE(is_due(0)) << "it may be on its way";
  EXPECT_TRUE(is_due(250));
  EXPECT_FALSE(is_lost(251, 100));
  for (int ms = 500; ms < 10'000; ms += 250)
    EXPECT_FALSE(is_due(ms));
}

TEST_F(delivery_watch_test, finds_a_lane_lost_whose_bytes_do_not_arrive) {
  own_.sent = 100;
  EXPECT_FALSE(is_due(0));
  for (int ms = 250; ms < 1500; ms += 250) {
    EXPECT_TRUE(is_due(ms));
    EXPECT_FALSE(is_lost(ms, 40));
    own_.sent += 10;
  }
  // The first reply has shown that 40 bytes have arrived.
  EXPECT_FALSE(is_lost(1'700, 40));
  EXPECT_TRUE(is_lost(1'750, 40));
}

TEST_F(delivery_watch_test, lets_a_slow_path_go_on) {
  own_.sent = 1'000'000;
  EXPECT_FALSE(is_due(0));
  for (int ms = 1'000; ms < 100'000; ms += 1'000)
    EXPECT_FALSE(is_lost(ms, static_cast<std::uint64_t>(ms)));
}

TEST_F(delivery_watch_test, lets_a_peer_wait_that_takes_nothing_in) {
  own_.sent = 100;
  EXPECT_FALSE(is_due(0));
  for (int ms = 1'000; ms < 100'000; ms += 1'000)
    EXPECT_FALSE(is_lost(ms, 40, true));
}

TEST_F(delivery_watch_test, leaves_unacknowledged_bytes_to_the_path_monitor) {
  own_.sent = 100;
  own_.is_in_flight = true;
  EXPECT_FALSE(is_due(0));
  EXPECT_FALSE(is_due(10'000));
  own_.is_in_flight = false;
  EXPECT_TRUE(is_due(10'250));
  EXPECT_FALSE(is_lost(10'251, 0)) << "since then";
}

TEST_F(delivery_watch_test, asks_nothing_while_the_peer_sends) {
  own_.sent = 100;
  for (int ms = 0; ms < 10'000; ms += 250) {
    own_.received += 10;
    EXPECT_FALSE(is_due(ms));
  }
}

} // namespace
} // namespace farcall::tcp::lane_checks_test
