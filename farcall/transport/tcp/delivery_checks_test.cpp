// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/delivery_checks.hpp>

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace farcall::tcp::delivery_checks_test {
namespace {

using std::chrono::milliseconds;

/// A connection in simulated time.
class delivery_watch_test : public testing::Test {
 protected:
  static constexpr int timeout = 1600;
  static constexpr int look = timeout / delivery_watch::looks;

  bool is_due(int ms) { return watch_.is_due(own_, begin_ + milliseconds(ms)); }
  bool is_lost(int ms, std::uint64_t received, bool is_full = false) {
    delivery_message reply{delivery_question::so_far, is_full ? delivery_message::full : 0U};
    reply.received = received;
    return watch_.is_lost(reply, own_, begin_ + milliseconds(ms));
  }
  /// Checks and asks until `end`, while `received` bytes have arrived. Returns the time of the
  /// loss, or -1.
  int look_until(int end, std::uint64_t received) {
    for (; now_ <= end; now_ += look) {
      if (is_due(now_) && is_lost(now_, received)) return now_;
    }
    return -1;
  }

  int now_ = 0;
  time_point begin_ = time_point{} + std::chrono::hours(10);
  delivery_watch watch_{milliseconds(timeout)};
  stream_position own_;
};

TEST_F(delivery_watch_test, asks_nothing_while_nothing_was_sent) {
  EXPECT_FALSE(is_due(0));
  EXPECT_FALSE(is_due(10'000));
}

TEST_F(delivery_watch_test, asks_no_more_once_all_has_arrived) {
  own_.sent = 100;
  EXPECT_FALSE(is_due(0)) << "it may be on its way";
  EXPECT_TRUE(is_due(look));
  EXPECT_FALSE(is_lost(look, 100));
  for (int ms = 2 * look; ms < 10'000; ms += look)
    EXPECT_FALSE(is_due(ms));
}

TEST_F(delivery_watch_test, finds_within_the_timeout_that_bytes_do_not_arrive) {
  EXPECT_FALSE(is_due(-look)) << "nothing is sent yet";
  own_.sent = 100;
  const int lost = look_until(10 * timeout, 40);
  EXPECT_GE(lost, timeout * 9 / 10);
  EXPECT_LE(lost, timeout);
}

TEST_F(delivery_watch_test, counts_from_the_last_arrival) {
  own_.sent = 100;
  EXPECT_EQ(look_until(timeout / 2, 40), -1);
  EXPECT_EQ(look_until(timeout, 41), -1);
  EXPECT_GE(look_until(10 * timeout, 41), timeout / 2 + timeout * 9 / 10);
}

TEST_F(delivery_watch_test, gives_more_time_after_an_outage_of_all_connections) {
  own_.sent = 100;
  EXPECT_EQ(look_until(look, 40), -1);
  const int outage = timeout * 95 / 100;
  for (; now_ < outage; now_ += look)
    (void)is_due(now_);
  // All replies arrive together after the outage.
  for (int i = 0; i < 8; ++i)
    EXPECT_FALSE(is_lost(outage, 40));
  EXPECT_EQ(look_until(2 * outage, 40), -1) << "a forwarder repeats so late";
  const int lost = look_until(10 * timeout, 40);
  EXPECT_GE(lost, outage + timeout);
  EXPECT_LE(lost, 3 * timeout);
}

TEST_F(delivery_watch_test, finds_a_loss_although_replies_are_late) {
  own_.sent = 100;
  int lost = -1;
  for (int ms = 0; lost < 0 && ms < 10 * timeout; ms += timeout / 2) {
    (void)is_due(ms);
    if (is_lost(ms + timeout / 3, 40)) lost = ms;
  }
  EXPECT_GE(lost, timeout);
  EXPECT_LE(lost, 4 * timeout);
}

TEST_F(delivery_watch_test, tolerates_a_slow_path) {
  own_.sent = 1'000'000;
  EXPECT_FALSE(is_due(0));
  for (int ms = 1'000; ms < 100'000; ms += 1'000) {
    EXPECT_TRUE(is_due(ms));
    EXPECT_FALSE(is_lost(ms, static_cast<std::uint64_t>(ms)));
  }
}

TEST_F(delivery_watch_test, tolerates_a_peer_that_does_not_read) {
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
  EXPECT_TRUE(is_due(10'000 + look));
  EXPECT_FALSE(is_lost(10'000 + look, 0)) << "since then";
}

TEST_F(delivery_watch_test, asks_nothing_while_the_peer_sends) {
  own_.sent = 100;
  for (int ms = 0; ms < 10'000; ms += look) {
    own_.received += 10;
    EXPECT_FALSE(is_due(ms));
  }
}

} // namespace
} // namespace farcall::tcp::delivery_checks_test
