// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/lane.hpp>
#include <farcall/transport/tcp/stream_test_support.hpp>
#include <tests/ring_support.hpp>
#include <tests/scripted_stream.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace farcall::tcp::lane_test {
namespace {

constexpr std::uint32_t ring_bytes = min_ring;

/// Returns the bytes that a sender with such a ring sends: `count` records of changing lengths,
/// including pads.
std::vector<std::byte> stream_of_records(std::uint64_t count) {
  alignas(line_bytes) std::array<std::byte, ring_bytes> ring{};
  std::atomic<std::uint64_t> consumed{0};
  outbox out;
  attach(out, ring.data(), ring.size(), consumed);
  std::vector<std::byte> sent;
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t before = out.head;
    if (!test::send(out, static_cast<std::uint32_t>(8 + n * 37 % 1000), n)) std::abort();
    for (std::uint64_t at = before; at < out.head; ++at)
      sent.push_back(ring[at % ring.size()]);
    consumed.store(out.head);
  }
  return sent;
}

std::uint32_t length_of(std::uint64_t n) { return static_cast<std::uint32_t>(8 + n * 37 % 1000); }

class lane_ends : public ::testing::Test {
 protected:
  lane_ends() : loop_("test") {}
  ~lane_ends() override {
    if (lane_) lane_->cut();
  }

  void connect(std::vector<std::byte> request_context, std::vector<std::size_t> pieces,
               lane_role role, bool ends = false) {
    lane_ = std::make_shared<stream_endpoint>(loop_, sweep_, ring_bytes, doorbell_, role);
    lane_->fill(endpoint_);
    auto s = std::make_unique<test::scripted_stream>(std::move(request_context), std::move(pieces));
    if (ends) s->end();
    lane_->attach(std::move(s), {});
  }

  /// Returns the next record; polls for it like the lane's user.
  record_view next() {
    for (int i = 0; i < 5000; ++i) {
      if (const record_view record = peek(endpoint_.in)) return record;
      lane_->on_event(0);
    }
    return {};
  }

  event_loop loop_;
  counted_ptr<deferral_sweep> sweep_{new deferral_sweep(loop_, [] {})};
  doorbell doorbell_;
  std::shared_ptr<stream_endpoint> lane_;
  endpoint endpoint_;
};

TEST_F(lane_ends, fragmented_records_are_assembled) {
  constexpr std::uint64_t count = 200;
  const std::vector<std::byte> sent = stream_of_records(count);
  for (const std::vector<std::size_t>& pieces : {std::vector<std::size_t>{1},
                                                 {2},
                                                 {3},
                                                 {5, 1},
                                                 {7},
                                                 {15},
                                                 {16},
                                                 {17},
                                                 {4, 12},
                                                 {1, 4095},
                                                 {100, 1, 1, 1},
                                                 {1000},
                                                 {100'000}}) {
    connect(sent, pieces, lane_role::opener);
    for (std::uint64_t n = 0; n < count; ++n) {
      const record_view record = next();
      ASSERT_EQ(test::wrong_with(record, length_of(n), n), "") << n << ", " << pieces[0];
      release(endpoint_.in, record);
    }
    EXPECT_FALSE(peek(endpoint_.in)) << "what is left behind the last record reads as nothing";
    lane_->cut();
  }
}

TEST_F(lane_ends, a_full_ring_blocks_the_socket) {
  constexpr std::uint64_t count = 100;
  connect(stream_of_records(count), {100'000}, lane_role::opener);
  for (int i = 0; i < 10; ++i)
    lane_->on_event(0);
  for (std::uint64_t n = 0; n < count; ++n) {
    const record_view record = next();
    ASSERT_EQ(test::wrong_with(record, length_of(n), n), "") << n;
    release(endpoint_.in, record);
  }
}

TEST_F(lane_ends, the_end_is_seen_after_the_last_record) {
  connect(stream_of_records(3), {10}, lane_role::acceptor, true);
  for (std::uint64_t n = 0; n < 3; ++n) {
    const record_view record = next();
    ASSERT_EQ(test::wrong_with(record, length_of(n), n), "");
    release(endpoint_.in, record);
  }
  for (int i = 0; i < 10; ++i)
    lane_->on_event(0);
  EXPECT_TRUE(lane_->has_ended());
  EXPECT_FALSE(peek(endpoint_.in));
}

TEST_F(lane_ends, a_truncated_record_is_never_seen) {
  std::vector<std::byte> sent = stream_of_records(2);
  sent.resize(sent.size() - 1);
  connect(sent, {50}, lane_role::acceptor, true);
  const record_view record = next();
  ASSERT_EQ(test::wrong_with(record, length_of(0), 0), "");
  release(endpoint_.in, record);
  for (int i = 0; i < 100; ++i)
    lane_->on_event(0);
  EXPECT_TRUE(lane_->has_ended());
  EXPECT_FALSE(peek(endpoint_.in));
}

TEST_F(lane_ends, invalid_records_are_marked_and_end_the_lane) {
  for (const std::uint32_t word :
       {0U, 4U, commit_word(7, record_kind::request), commit_word(2000, record_kind::request),
        commit_word(5000, record_kind::pad), commit_word(max_record, record_kind::reply)}) {
    std::vector<std::byte> sent = stream_of_records(2);
    const std::size_t good = sent.size();
    sent.resize(good + 4096);
    std::memcpy(sent.data() + good, &word, sizeof word);
    connect(sent, {sent.size()}, lane_role::opener);
    for (std::uint64_t n = 0; n < 2; ++n) {
      const record_view record = next();
      ASSERT_EQ(test::wrong_with(record, length_of(n), n), "") << word;
      release(endpoint_.in, record);
    }
    const record_view record = next();
    EXPECT_EQ(record.kind, record_kind::corrupt) << word;
    EXPECT_EQ(record.bytes, 0U);
    lane_->cut();
  }
}

// A polling thread may read the bytes from the socket that a blocked send waits for.
TEST_F(lane_ends, a_send_continues_whichever_thread_ends_the_handshake) {
  lane_ =
      std::make_shared<stream_endpoint>(loop_, sweep_, ring_bytes, doorbell_, lane_role::opener);
  lane_->fill(endpoint_);
  auto made = std::make_unique<test::scripted_stream>(stream_of_records(1),
                                                      std::vector<std::size_t>{10'000});
  test::scripted_stream& other_side = *made;
  other_side.begin_handshake();
  const std::array<std::byte, 8> first{};
  lane_->attach(std::move(made), first);
  ASSERT_TRUE(peek(endpoint_.in)) << "which is why the lane's user polls";
  EXPECT_EQ(other_side.written(), 0U);
  // Meanwhile the loop arms the socket again.
  other_side.end_handshake([&] { lane_->arm(); });
  EXPECT_TRUE(test::eventually([&] {
    lane_->progress();
    return other_side.written() == first.size();
  }));
}

TEST_F(lane_ends, requests_that_wait_at_a_loss_never_arrive) {
  auto [ours, theirs] = test_support::tcp_pair();
  lane_ =
      std::make_shared<stream_endpoint>(loop_, sweep_, ring_bytes, doorbell_, lane_role::opener);
  lane_->fill(endpoint_);
  lane_->attach(plain_stream(std::move(ours)), {});
  // Blocked several times in a row: the socket's buffer is full, and not all of it is delivered.
  for (int blocked = 0; blocked < 20;) {
    if (test::send(endpoint_.out, 1000, 1)) {
      blocked = 0;
      continue;
    }
    ++blocked;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    lane_->on_event(0);
  }
  // Close only the peer's direction, as a tunnel may do.
  ASSERT_EQ(::shutdown(theirs.get(), SHUT_WR), 0);
  ASSERT_TRUE(test::eventually([&] {
    lane_->on_event(0);
    return lane_->has_ended();
  }));
  const auto far = plain_stream(std::move(theirs));
  test_support::bytes all(endpoint_.out.head - ring_bytes);
  EXPECT_NE(test_support::read_all(*far, all), io_status::done) << "as much as the system had";
}

TEST_F(lane_ends, the_opener_learns_of_a_loss) {
  connect({}, {1}, lane_role::opener, true);
  EXPECT_EQ(peek(endpoint_.in).kind, record_kind::none) << "notices of the node come first";
  ASSERT_TRUE(test::eventually([&] { return peek(endpoint_.in).kind == record_kind::lost; }));
}

} // namespace
} // namespace farcall::tcp::lane_test
