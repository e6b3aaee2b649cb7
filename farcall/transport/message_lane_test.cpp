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

constexpr std::uint32_t ring_bytes = smallest_ring;
constexpr std::uint32_t record_bytes = 32;

/// Takes whatever it is given.
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
  void look_again() noexcept override {}
};

/// Record number `n` of a stream.
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

  /// Bytes of the peer's, from that position of its stream on.
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

TEST_F(message_lanes, bytes_that_come_before_their_turn_are_read_in_order) {
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

TEST_F(message_lanes, what_came_before_its_turn_may_be_no_record) {
  // Of these the first ends the lane, and with it go all.
  come(record_bytes, std::array<std::byte, record_bytes>{});
  come(2 * record_bytes, record(2));
  come(0, record(0));
  const record_view got = peek(end_.in);
  ASSERT_EQ(test::wrong_with(got, record_bytes, 0), "");
  release(end_.in, got);
  EXPECT_EQ(peek(end_.in).kind, record_kind::corrupt);
}

/// They would cost memory for each, and nothing bounds their number.
TEST_F(message_lanes, nothing_does_not_wait_for_its_turn) {
  come(record_bytes, {});
  EXPECT_EQ(peek(end_.in).kind, record_kind::corrupt);
}

} // namespace
} // namespace farcall::message_lane_test
