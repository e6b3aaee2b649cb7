// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/path_monitor.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

namespace farcall::tcp::path_monitor_test {
namespace {

using std::chrono::milliseconds;

/// A connection in simulated time.
class path_watch_test : public ::testing::Test {
 protected:
  /// Checks the connection at `ms` after the beginning.
  bool is_lost_at(int ms, path_sample s) { return watch_.is_lost(s, begin_ + milliseconds(ms)); }
  static path_sample in_flight(int since_sent_ms, std::uint64_t acknowledged = 100) {
    path_sample s;
    s.in_flight = 1;
    s.acknowledged = acknowledged;
    s.since_sent = milliseconds(since_sent_ms);
    s.since_acknowledgement = milliseconds(1'000'000);
    return s;
  }
  static path_sample idle() {
    path_sample s;
    s.acknowledged = 100;
    s.since_sent = s.since_acknowledgement = milliseconds(1'000'000);
    return s;
  }

  time_point begin_ = time_point{} + std::chrono::hours(10);
  path_watch watch_{milliseconds(5000)};
};

TEST_F(path_watch_test, an_idle_connection_is_never_lost) {
  for (int ms = 0; ms < 100'000; ms += 500)
    EXPECT_FALSE(is_lost_at(ms, idle()));
}

TEST_F(path_watch_test, bytes_after_a_silence_have_the_whole_timeout) {
  EXPECT_FALSE(is_lost_at(0, idle()));
  EXPECT_FALSE(is_lost_at(500, in_flight(100)));
  EXPECT_FALSE(is_lost_at(5'400, in_flight(100)));
}

TEST_F(path_watch_test, is_lost_if_later_retransmissions_are_unacknowledged) {
  EXPECT_FALSE(is_lost_at(0, in_flight(0)));
  // The retransmission after 3 s may have been lost although the path works again now.
  EXPECT_FALSE(is_lost_at(5'500, in_flight(2'500)));
  EXPECT_FALSE(is_lost_at(6'250, in_flight(50)));
  EXPECT_TRUE(is_lost_at(6'300, in_flight(100)));
}

TEST_F(path_watch_test, is_lost_after_twice_the_timeout_whatever_is_sent) {
  for (int ms = 0; ms < 10'000; ms += 50)
    EXPECT_FALSE(is_lost_at(ms, in_flight(10)));
  EXPECT_TRUE(is_lost_at(10'000, in_flight(10)));
}

TEST_F(path_watch_test, each_acknowledged_byte_restarts_the_timeout) {
  for (int ms = 0; ms < 100'000; ms += 4'000)
    EXPECT_FALSE(is_lost_at(ms, in_flight(4'000, static_cast<std::uint64_t>(ms))));
}

TEST_F(path_watch_test, a_peer_that_does_not_read_acknowledges_probes) {
  path_sample s = idle();
  for (int ms = 0; ms < 100'000; ms += 500) {
    s.probes = 1;
    s.since_acknowledgement = milliseconds(ms % 4'000);
    EXPECT_FALSE(is_lost_at(ms, s)) << ms;
  }
}

TEST_F(path_watch_test, unacknowledged_probes_are_a_loss) {
  path_sample s = idle();
  s.probes = 1;
  EXPECT_FALSE(is_lost_at(0, s));
  EXPECT_FALSE(is_lost_at(9'900, s));
  EXPECT_TRUE(is_lost_at(10'000, s));
}

TEST_F(path_watch_test, is_lost_if_a_probe_after_the_timeout_fails) {
  path_sample s = idle();
  EXPECT_FALSE(is_lost_at(0, s));
  s.probes = 1;
  EXPECT_FALSE(is_lost_at(500, s));
  // The path may have recovered since the last probe.
  s.probes = 5;
  EXPECT_FALSE(is_lost_at(5'000, s));
  EXPECT_FALSE(is_lost_at(6'000, s));
  s.probes = 6;
  EXPECT_FALSE(is_lost_at(6'500, s));
  EXPECT_TRUE(is_lost_at(7'000, s));
}

using namespace test_support;

/// A connection whose far side can drop packets like a black hole.
class path_monitor_test : public ::testing::Test {
 protected:
  path_monitor_test() {
    auto [ours, theirs] = tcp_pair();
    near_ = plain_stream(std::move(ours));
    far_ = plain_stream(std::move(theirs));
    near_->watch_path(*monitor_);
  }

  /// Makes the far side's system drop packets of more bytes than that, including TCP's header.
  void drop_longer_than(std::uint32_t bytes) {
    std::array<sock_filter, 4> program{{{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
                                        {BPF_JMP | BPF_JGT | BPF_K, 0, 1, bytes},
                                        {BPF_RET | BPF_K, 0, 0, 0},
                                        {BPF_RET | BPF_K, 0, 0, 0xFFFFFFFF}}};
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    ASSERT_EQ(::setsockopt(far_->fd(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
  }
  void drop_nothing() {
    const int unused = 0;
    ASSERT_EQ(::setsockopt(far_->fd(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused), 0);
  }

  /// Returns how the near side's connection ends; would_block if it lasts longer than `bound`.
  io_status end_within(milliseconds bound) {
    std::array<std::byte, 16> piece{};
    const iovec part{piece.data(), piece.size()};
    for (const time_point end = clock::now() + bound; clock::now() < end;) {
      const io_status now = near_->read({&part, 1}).status;
      if (now != io_status::would_block) return now;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return io_status::would_block;
  }

  static constexpr milliseconds timeout{1000};
  event_loop loop_{"path-test"};
  std::shared_ptr<path_monitor> monitor_ = std::make_shared<path_monitor>(loop_, timeout);
  std::unique_ptr<stream> near_;
  std::unique_ptr<stream> far_;
};

TEST_F(path_monitor_test, ends_a_connection_into_a_black_hole) {
  drop_longer_than(0);
  ASSERT_EQ(write_all(*near_, bytes_of("lost")), io_status::done);
  EXPECT_NE(end_within(milliseconds(60'000)), io_status::would_block);
}

TEST_F(path_monitor_test, ends_a_connection_that_only_short_packets_pass) {
  drop_longer_than(500);
  ASSERT_EQ(write_all(*near_, bytes(2000)), io_status::done);
  std::atomic<bool> has_ended{false};
  // Acknowledgements of later bytes do not hide that the first ones never arrive.
  std::jthread later([&] {
    while (!has_ended && write_all(*near_, bytes_of("short")) == io_status::done)
      std::this_thread::sleep_for(milliseconds(50));
  });
  EXPECT_NE(end_within(milliseconds(60'000)), io_status::would_block);
  has_ended = true;
}

TEST_F(path_monitor_test, a_connection_that_was_given_up_delivers_nothing_afterwards) {
  ASSERT_EQ(write_all(*near_, bytes_of("early")), io_status::done);
  EXPECT_EQ(received(*far_, 5), bytes_of("early"));
  drop_longer_than(500);
  ASSERT_EQ(write_all(*near_, bytes(2000)), io_status::done);
  ASSERT_NE(end_within(milliseconds(60'000)), io_status::would_block);
  drop_nothing();
  EXPECT_EQ(end_of(*far_), io_status::failed) << "bytes, or an end in order";
}

TEST_F(path_monitor_test, loses_nothing_where_the_path_comes_back_in_time) {
  drop_longer_than(0);
  ASSERT_EQ(write_all(*near_, bytes_of("late")), io_status::done);
  std::this_thread::sleep_for(timeout * 9 / 10);
  drop_nothing();
  EXPECT_EQ(received(*far_, 4), bytes_of("late"));
  EXPECT_EQ(end_within(3 * timeout), io_status::would_block);
}

/// Tests with the kernel's probes, whose times are whole seconds.
class idle_path : public path_monitor_test {
 protected:
  idle_path() {
    set_options(near_->fd(), idle_timeout);
    near_->watch_path(*patient_);
  }
  static constexpr milliseconds idle_timeout{2000};
  std::shared_ptr<path_monitor> patient_ = std::make_shared<path_monitor>(loop_, idle_timeout);
};

TEST_F(idle_path, loses_nothing_where_the_path_comes_back_in_time) {
  drop_longer_than(0);
  std::this_thread::sleep_for(idle_timeout * 9 / 10);
  drop_nothing();
  EXPECT_EQ(end_within(3 * idle_timeout), io_status::would_block);
}

TEST_F(idle_path, ends_where_the_path_stays_broken) {
  drop_longer_than(0);
  EXPECT_NE(end_within(milliseconds(60'000)), io_status::would_block);
}

TEST_F(path_monitor_test, tolerates_peers_that_do_not_read) {
  const bytes much(std::size_t{64} << 20);
  const iovec all{const_cast<std::byte*>(much.data()), much.size()};
  // Until the buffers of both sides are full.
  for (int blocked = 0; blocked < 20;) {
    if (near_->write({&all, 1}).status == io_status::would_block) {
      ++blocked;
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  EXPECT_EQ(end_within(5 * timeout), io_status::would_block);
}

TEST_F(path_monitor_test, forgets_connections_that_end_before_it) {
  near_.reset();
  std::this_thread::sleep_for(timeout / 2);
  auto [ours, theirs] = tcp_pair();
  near_ = plain_stream(std::move(ours));
  near_->watch_path(*monitor_);
  monitor_.reset();
  near_.reset();
}

} // namespace
} // namespace farcall::tcp::path_monitor_test
