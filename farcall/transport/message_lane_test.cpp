// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/message_lane.hpp>
#include <tests/ring_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace farcall::message_lane_test {
namespace {

constexpr std::uint32_t ring_bytes = min_ring;
constexpr std::uint32_t record_bytes = 32;

/// Network that accepts every message.
class network_stub final : public message_link {
 public:
  network_stub() : message_link(512) {}
  using message_link::post;
  outcome send(message_lane& /*from*/, const lane_header& /*header*/,
               std::span<const std::byte> /*bytes*/) noexcept override {
    return outcome::sent;
  }
  bool post(message_peer& /*to*/, lane_message /*kind*/,
            std::span<const std::byte> /*header*/) noexcept override {
    return true;
  }
  unsigned poll() noexcept override { return 0; }
  void arm() noexcept override {}
  void poll_again() noexcept override {}
};

/// Returns record number `n` of a stream.
std::vector<std::byte> record(std::uint64_t n) {
  std::vector<std::byte> made(record_bytes);
  test::fill(made.data(), record_bytes, n);
  const std::uint32_t word = commit_word(record_bytes, record_kind::request);
  std::memcpy(made.data(), &word, sizeof word);
  return made;
}

class message_lanes : public ::testing::Test {
 protected:
  message_lanes() { lane_.fill(end_); }

  /// Delivers bytes of the peer's stream, starting at `position`.
  void come(std::uint32_t position, std::span<const std::byte> bytes) {
    lane_header h;
    h.position = position;
    lane_.take_bytes(h, bytes);
  }

  network_stub network_;
  message_peer peer_;
  doorbell wakes_;
  message_lane lane_{network_, peer_, 0, {}, ring_bytes, wakes_, lane_role::acceptor};
  endpoint end_;
};

TEST_F(message_lanes, bytes_that_arrive_early_are_read_in_order) {
  come(2 * record_bytes, record(2));
  come(record_bytes, record(1));
  EXPECT_FALSE(peek(end_.in));
  come(0, record(0));
  for (std::uint64_t n = 0; n < 3; ++n) {
    const record_view got = peek(end_.in);
    ASSERT_EQ(test::wrong_with(got, record_bytes, n), "") << n;
    release(end_.in, got);
  }
  EXPECT_FALSE(peek(end_.in));
}

TEST_F(message_lanes, early_bytes_may_be_no_record) {
  // The first of these early bytes ends the lane, and all must be dropped with it.
  come(record_bytes, std::array<std::byte, record_bytes>{});
  come(2 * record_bytes, record(2));
  come(0, record(0));
  const record_view got = peek(end_.in);
  ASSERT_EQ(test::wrong_with(got, record_bytes, 0), "");
  release(end_.in, got);
  EXPECT_EQ(peek(end_.in).kind, record_kind::corrupt);
}

/// Each empty message would take memory, without a bound on their number.
TEST_F(message_lanes, empty_messages_do_not_wait) {
  come(record_bytes, {});
  EXPECT_EQ(peek(end_.in).kind, record_kind::corrupt);
}

} // namespace
} // namespace farcall::message_lane_test
