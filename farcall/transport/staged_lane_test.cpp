// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/transport/staged_lane.hpp>
#include <tests/ring_support.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace farcall::staged_lane_test {
namespace {

constexpr std::uint32_t size = min_ring;

/// Lane whose link is the test itself.
class bare_lane final : public staged_lane {
 public:
  bare_lane() : staged_lane(&bare_lane::committed) {}

  void start(doorbell& wakes, lane_role role = lane_role::opener) {
    begin(rings_.get(), rings_.get() + size, size, role, wakes);
    fill(end);
  }
  void progress() noexcept override {}
  void arm() noexcept override {}

  endpoint end;
  using staged_lane::in_;
  using staged_lane::out_;
  int commits = 0;

 private:
  static void committed(void* lane) noexcept {
    ++static_cast<bare_lane&>(*static_cast<staged_lane*>(lane)).commits;
  }

  line_aligned_memory rings_ = make_line_aligned(std::size_t{size} * 2);
};

class staged_lanes : public ::testing::Test {
 protected:
  staged_lanes() { lane_.start(doorbell_); }

  doorbell doorbell_;
  bare_lane lane_;
};

TEST_F(staged_lanes, every_commit_is_noticed_and_found_in_order) {
  for (std::uint64_t n = 0; n < 3; ++n)
    ASSERT_TRUE(test::send(lane_.end.out, 40, n));
  EXPECT_EQ(lane_.commits, 3);
  EXPECT_EQ(lane_.end.driver, &lane_);
  EXPECT_TRUE(lane_.out_.has_commits());
  for (std::uint64_t n = 0; n < 3; ++n) {
    const record_view record = lane_.out_.next();
    ASSERT_EQ(test::wrong_with(record, 40, n), "");
    lane_.out_.take(record);
  }
  EXPECT_FALSE(lane_.out_.next());
}

TEST_F(staged_lanes, space_comes_back_with_the_credit_and_not_before) {
  std::uint64_t sent = 0;
  while (test::send(lane_.end.out, 1000, sent))
    ++sent;
  const std::uint64_t end = lane_.out_.take_all();
  EXPECT_EQ(end, lane_.end.out.head);
  EXPECT_FALSE(test::send(lane_.end.out, 1000, sent)) << "taken, and still needed by the link";
  EXPECT_TRUE(lane_.out_.is_held());
  lane_.out_.give_credit(end);
  EXPECT_FALSE(lane_.out_.is_held());
  EXPECT_TRUE(test::send(lane_.end.out, 1000, sent));
}

TEST_F(staged_lanes, credit_within_a_record_counts_whole_granules) {
  ASSERT_TRUE(test::send(lane_.end.out, 100, 0));
  const std::uint64_t end = lane_.out_.take_all();
  lane_.out_.give_credit(end - 1);
  EXPECT_TRUE(lane_.out_.is_held());
  EXPECT_EQ(lane_.end.out.consumed->load() % record_alignment, 0U);
}

TEST_F(staged_lanes, records_wrap_many_times_with_pads) {
  std::uint64_t read = 0;
  for (std::uint64_t n = 0; n < 500; ++n) {
    const auto bytes = static_cast<std::uint32_t>(8 + n * 37 % 1000);
    ASSERT_TRUE(test::send(lane_.end.out, bytes, n));
    const record_view record = lane_.out_.next();
    ASSERT_EQ(test::wrong_with(record, bytes, n), "") << n;
    lane_.out_.take(record);
    lane_.out_.give_credit(lane_.out_.taken());
    read = lane_.out_.taken();
  }
  EXPECT_EQ(read, lane_.end.out.head);
  EXPECT_GT(read, std::uint64_t{size} * 10);
}

TEST_F(staged_lanes, a_refusal_closes_the_lane_behind_what_was_committed) {
  ASSERT_TRUE(test::send(lane_.end.out, 40, 0));
  refuse(lane_.end.out);
  EXPECT_EQ(lane_.commits, 2) << "a refusal is noticed too";
  const record_view record = lane_.out_.next();
  ASSERT_EQ(test::wrong_with(record, 40, 0), "");
  EXPECT_EQ(lane_.out_.state(), send_state::open);
  lane_.out_.take(record);
  EXPECT_FALSE(lane_.out_.next());
  EXPECT_EQ(lane_.out_.state(), send_state::closing);
}

TEST_F(staged_lanes, a_refusal_is_sent_once_as_a_mark) {
  ASSERT_TRUE(test::send(lane_.end.out, 40, 0));
  refuse(lane_.end.out);
  const std::uint64_t end = lane_.out_.take_all();
  EXPECT_EQ(end, lane_.end.out.head + record_alignment);
  EXPECT_EQ(lane_.out_.take_all(), end);
  EXPECT_EQ(lane_.out_.state(), send_state::closing);
}

TEST_F(staged_lanes, committed_records_wake_the_reader_and_are_read) {
  doorbell_.word = armed_flag;
  for (std::uint64_t n = 0; n < 3; ++n) {
    std::byte* const record = lane_.in_.reserve(40);
    ASSERT_NE(record, nullptr);
    test::fill(record, 40, n);
    lane_.in_.commit(record, 40, record_kind::reply);
  }
  EXPECT_EQ(doorbell_.word & armed_flag, 0U);
  for (std::uint64_t n = 0; n < 3; ++n) {
    const record_view record = peek(lane_.end.in);
    ASSERT_EQ(test::wrong_with(record, 40, n, record_kind::reply), "");
    release(lane_.end.in, record);
  }
}

TEST_F(staged_lanes, a_ring_stays_full_until_its_reader_reads) {
  std::uint64_t n = 0;
  while (std::byte* const record = lane_.in_.reserve(1000)) {
    test::fill(record, 1000, n++);
    lane_.in_.commit(record, 1000, record_kind::reply);
  }
  EXPECT_EQ(lane_.in_.state(), receive_state::full);
  release(lane_.end.in, peek(lane_.end.in));
  EXPECT_EQ(lane_.in_.state(), receive_state::full) << "nobody has looked yet";
  release(lane_.end.in, peek(lane_.end.in));
  ASSERT_NE(lane_.in_.reserve(1000), nullptr);
  EXPECT_EQ(lane_.in_.state(), receive_state::open);
}

TEST_F(staged_lanes, the_next_user_finds_cleared_rings) {
  ASSERT_TRUE(test::send(lane_.end.out, 40, 0));
  std::byte* const record = lane_.in_.reserve(40);
  test::fill(record, 40, 1);
  lane_.in_.commit(record, 40, record_kind::reply);
  lane_.out_.on(send_event::release);
  lane_.in_.on(receive_event::release);
  doorbell other;
  lane_.start(other);
  EXPECT_FALSE(peek(lane_.end.in));
  EXPECT_FALSE(lane_.out_.next());
  EXPECT_FALSE(lane_.out_.has_commits());
  EXPECT_EQ(lane_.out_.state(), send_state::open);
  EXPECT_EQ(&lane_.in_.wakes(), &other);
  ASSERT_TRUE(test::send(lane_.end.out, 40, 2));
  ASSERT_EQ(test::wrong_with(lane_.out_.next(), 40, 2), "");
}

} // namespace
} // namespace farcall::staged_lane_test
