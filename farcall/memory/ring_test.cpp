// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>
#include <tests/ring_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace farcall::ring_test {
namespace {

using test::private_ring;
using test::send;
using test::wrong_with;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t small = min_ring;

// ---- constants ----------------------------------------------------------------------------------

static_assert(std::is_trivially_copyable_v<record_header>);
static_assert(offsetof(record_header, commit) == 0 && offsetof(record_header, slot) == 4);
static_assert(record_limit(4096) == 1024);
static_assert(record_limit(65536) == 16384);

TEST(record, length_and_kind_survive_the_commit_word) {
  for (const std::uint32_t bytes : {8U, 24U, 1024U, 0xFFFFFFU}) {
    for (unsigned kind = 1; kind < 256; ++kind) {
      const std::uint32_t word = commit_word(bytes, static_cast<record_kind>(kind));
      EXPECT_EQ(commit_bytes(word), bytes);
      EXPECT_EQ(commit_kind(word), static_cast<record_kind>(kind));
      EXPECT_NE(word, 0U);
    }
  }
}

// ---- one record after the other -----------------------------------------------------------------

TEST(ring, a_fresh_ring_holds_nothing) {
  private_ring r(small);
  EXPECT_FALSE(peek(r.in));
  EXPECT_FALSE(has_record(r.in, r.in.tail));
}

TEST(ring, every_length_arrives_as_it_was_sent) {
  private_ring r(small);
  for (std::uint32_t bytes = sizeof(record_header); bytes <= record_limit(small); ++bytes) {
    ASSERT_TRUE(send(r.out, bytes, bytes));
    EXPECT_TRUE(has_record(r.in, r.in.tail));
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, bytes, bytes), "");
    release(r.in, record);
    ASSERT_FALSE(peek(r.in)) << "after one of " << bytes << " bytes";
  }
}

TEST(ring, every_kind_of_message_arrives) {
  private_ring r(small);
  for (unsigned k = 2; k < 255; ++k) {
    const auto kind = static_cast<record_kind>(k);
    ASSERT_TRUE(send(r.out, 40, k, kind));
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, 40, k, kind), "");
    release(r.in, record);
  }
}

TEST(ring, peeking_takes_nothing) {
  private_ring r(small);
  ASSERT_TRUE(send(r.out, 24, 1));
  ASSERT_TRUE(send(r.out, 24, 2));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(wrong_with(peek(r.in), 24, 1), "");
}

TEST(ring, all_zero_records_are_records) {
  private_ring r(small);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      std::byte* record = try_reserve(r.out, 64);
      ASSERT_NE(record, nullptr);
      std::fill_n(record + 4, 60, std::byte{0});
      commit(r.out, record, 64, record_kind::request);
    }
    for (int i = 0; i < 20; ++i) {
      const record_view record = peek(r.in);
      ASSERT_EQ(record.bytes, 64U);
      ASSERT_TRUE(std::all_of(record.data + 4, record.data + 64,
                              [](std::byte b) { return b == std::byte{0}; }));
      release(r.in, record);
    }
    ASSERT_FALSE(peek(r.in));
  }
}

TEST(ring, small_records_share_a_line) {
  private_ring r(small);
  for (unsigned n = 0; n < 4; ++n)
    ASSERT_TRUE(send(r.out, 16, n));
  for (unsigned n = 0; n < 4; ++n) {
    const record_view record = peek(r.in);
    EXPECT_EQ(record.data, r.base() + std::size_t{n} * 16);
    release(r.in, record);
  }
}

// ---- one after the other, in one go -------------------------------------------------------------

/// Takes records by receive_each(), and returns their lengths.
std::vector<std::uint32_t> take_each(inbox& in, std::size_t most) {
  std::vector<std::uint32_t> all;
  const auto take = [&](const std::byte* /*record*/, std::uint32_t bytes) {
    all.push_back(bytes);
    return true;
  };
  const std::size_t n = receive_each(in, record_kind::reply, most, take);
  EXPECT_EQ(n, all.size());
  return all;
}

TEST(ring, receiving_each_ends_at_another_kind) {
  private_ring r(small);
  EXPECT_THAT(take_each(r.in, 10), IsEmpty());
  for (const std::uint32_t bytes : {8U, 24U, 100U, 1024U})
    ASSERT_TRUE(send(r.out, bytes, bytes, record_kind::reply));
  ASSERT_TRUE(send(r.out, 32, 1, record_kind::reply_error));
  ASSERT_TRUE(send(r.out, 40, 2, record_kind::reply));
  EXPECT_THAT(take_each(r.in, 3), ElementsAre(8U, 24U, 100U));
  EXPECT_THAT(take_each(r.in, 10), ElementsAre(1024U));
  EXPECT_THAT(take_each(r.in, 10), IsEmpty());
  const record_view other = peek(r.in);
  ASSERT_EQ(wrong_with(other, 32, 1, record_kind::reply_error), "");
  release(r.in, other);
  EXPECT_THAT(take_each(r.in, 10), ElementsAre(40U));
}

TEST(ring, receiving_each_leaves_a_record_that_is_not_taken) {
  private_ring r(small);
  for (const std::uint32_t bytes : {8U, 24U, 100U})
    ASSERT_TRUE(send(r.out, bytes, bytes, record_kind::reply));
  const auto takes_short_ones = [](const std::byte* /*record*/, std::uint32_t bytes) {
    return bytes < 100;
  };
  EXPECT_EQ(receive_each(r.in, record_kind::reply, 10, takes_short_ones), 2U);
  EXPECT_EQ(receive_each(r.in, record_kind::reply, 10, takes_short_ones), 0U);
  EXPECT_THAT(take_each(r.in, 10), ElementsAre(100U));
}

// A pad is left for peek().
TEST(ring, receiving_each_continues_after_a_peeked_pad) {
  private_ring r(small, small - 64);
  ASSERT_TRUE(send(r.out, 48, 1, record_kind::reply));
  ASSERT_TRUE(send(r.out, 48, 2, record_kind::reply));
  EXPECT_THAT(take_each(r.in, 10), ElementsAre(48U));
  EXPECT_EQ(wrong_with(peek(r.in), 48, 2, record_kind::reply), "");
  EXPECT_THAT(take_each(r.in, 10), ElementsAre(48U));
}

TEST(ring, receiving_each_gives_space_back) {
  private_ring r(small);
  for (unsigned n = 0; n < 100; ++n) {
    while (send(r.out, 64, n, record_kind::reply)) {
    }
    ASSERT_FALSE(take_each(r.in, 40).empty());
    // Published every quarter ring, as by release().
    EXPECT_LT(r.in.tail - r.consumed(), small / 4);
  }
}

// ---- reserving ----------------------------------------------------------------------------------

TEST(ring, a_reservation_that_is_not_committed_is_made_again) {
  private_ring r(small);
  ASSERT_TRUE(send(r.out, 48, 1));
  for (const std::uint32_t bytes : {16U, 1024U, 40U, 40U}) {
    std::byte* record = try_reserve(r.out, bytes);
    ASSERT_EQ(record, r.base() + 48);
    // The body may contain anything meanwhile.
    std::fill_n(record + 4, bytes - 4, std::byte{0xFF});
    const record_view first = peek(r.in);
    ASSERT_EQ(wrong_with(first, 48, 1), "");
  }
  release(r.in, peek(r.in));
  EXPECT_FALSE(peek(r.in));
  ASSERT_TRUE(send(r.out, 20, 2));
  EXPECT_EQ(wrong_with(peek(r.in), 20, 2), "");
}

// Bytes written into a longer reservation must not be taken for the record behind a shorter one.
TEST(ring, a_reservation_given_up_leaves_nothing_behind) {
  for (std::uint64_t start = small - 192; start < small + 64; start += 16) {
    for (const std::uint32_t before : {0U, 16U, 32U}) {
      for (std::uint32_t given_up = 16; given_up <= 256; given_up += 16) {
        for (std::uint32_t bytes = 8; bytes <= 160; bytes += 8) {
          private_ring r(small, start);
          if (before != 0) {
            ASSERT_TRUE(send(r.out, before, 0));
            release(r.in, peek(r.in));
          }
          std::byte* record = try_reserve(r.out, given_up);
          ASSERT_NE(record, nullptr);
          std::fill_n(record + 4, given_up - 4, std::byte{0x02});
          ASSERT_TRUE(send(r.out, bytes, 1));
          const record_view arrived = peek(r.in);
          ASSERT_EQ(wrong_with(arrived, bytes, 1), "");
          release(r.in, arrived);
          ASSERT_FALSE(peek(r.in)) << "from " << start + before << ", " << given_up
                                   << " bytes given up, " << bytes << " sent";
        }
      }
    }
  }
}

TEST(ring, a_reservation_behind_a_pad_is_made_again) {
  private_ring r(small);
  for (unsigned n = 0; n < 7; ++n) { // up to 512 bytes before the end
    ASSERT_TRUE(send(r.out, 512, n));
    release(r.in, peek(r.in));
  }
  ASSERT_EQ(try_reserve(r.out, 600), r.base());
  std::fill_n(r.base() + 4, 596, std::byte{0xFF});
  EXPECT_FALSE(peek(r.in));
  ASSERT_EQ(try_reserve(r.out, 16), r.base());
  EXPECT_FALSE(peek(r.in));
  ASSERT_TRUE(send(r.out, 600, 9));
  EXPECT_EQ(wrong_with(peek(r.in), 600, 9), "");
}

// ---- full ---------------------------------------------------------------------------------------

TEST(ring, full_means_null_and_loses_nothing) {
  private_ring r(small);
  unsigned sent = 0;
  while (send(r.out, 64, sent))
    ++sent;
  // All lines except one: the word that ends the last record needs a granule.
  EXPECT_EQ(sent, small / 64 - 1);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(try_reserve(r.out, 64), nullptr);
  for (unsigned n = 0; n < sent; ++n) {
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, 64, n), "");
    release(r.in, record);
  }
  EXPECT_FALSE(peek(r.in));
  EXPECT_TRUE(send(r.out, 64, 0));
}

TEST(ring, a_full_ring_may_have_space_for_less) {
  private_ring r(small);
  for (unsigned n = 0; n < 3; ++n)
    ASSERT_TRUE(send(r.out, 1024, n));
  ASSERT_TRUE(send(r.out, 1024 - 48, 3)); // 48 bytes left
  EXPECT_EQ(try_reserve(r.out, 33), nullptr);
  ASSERT_TRUE(send(r.out, 32, 4));
  EXPECT_EQ(try_reserve(r.out, 8), nullptr);
  for (unsigned n = 0; n < 5; ++n) {
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, n < 3 ? 1024 : n == 3 ? 1024 - 48 : 32, n), "");
    release(r.in, record);
  }
}

TEST(ring, the_position_is_published_every_quarter_ring) {
  private_ring r(small);
  for (unsigned n = 0; n < 32; ++n)
    ASSERT_TRUE(send(r.out, 64, n));
  for (unsigned n = 1; n <= 32; ++n) {
    release(r.in, peek(r.in));
    EXPECT_EQ(r.consumed().load(), n * 64 / 1024 * 1024) << n;
  }
}

TEST(ring, a_full_ring_that_needs_a_pad_writes_none) {
  private_ring r(small);
  for (unsigned n = 0; n < 6; ++n)
    ASSERT_TRUE(send(r.out, 640, n)); // 256 bytes left
  EXPECT_EQ(try_reserve(r.out, 512), nullptr);
  for (unsigned n = 0; n < 6; ++n) {
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, 640, n), "");
    release(r.in, record);
    // The record goes to the start of the ring, and the word behind it must be free, too.
    if (r.consumed().load() < 512 + 16) {
      ASSERT_EQ(try_reserve(r.out, 512), nullptr) << n;
    }
  }
  EXPECT_FALSE(peek(r.in));
  EXPECT_TRUE(send(r.out, 512, 6));
  EXPECT_EQ(wrong_with(peek(r.in), 512, 6), "");
}

// Otherwise a sender could wait for ever: the receiver publishes nothing more once it has read all.
TEST(ring, a_drained_ring_takes_the_largest_record_anywhere) {
  for (std::uint64_t start = 0; start < small; start += record_alignment) {
    for (std::uint32_t step : {16U, 48U, 240U, 1024U}) {
      private_ring r(small, start);
      while (send(r.out, step, 0)) {
      }
      while (const record_view record = peek(r.in))
        release(r.in, record);
      ASSERT_TRUE(send(r.out, record_limit(small), 1)) << "start " << start << ", step " << step;
      ASSERT_EQ(wrong_with(peek(r.in), record_limit(small), 1), "");
    }
  }
}

// ---- wraps --------------------------------------------------------------------------------------

TEST(ring, records_that_fill_the_ring_need_no_pad) {
  for (const std::uint32_t bytes : {16U, 64U, 256U, 512U, 1024U}) {
    private_ring r(small);
    const std::uint64_t per_round = small / bytes;
    for (std::uint64_t n = 0; n < 5 * per_round; ++n) {
      ASSERT_TRUE(send(r.out, bytes, n));
      const record_view record = peek(r.in);
      ASSERT_EQ(wrong_with(record, bytes, n), "");
      ASSERT_EQ(record.data, r.base() + n % per_round * bytes);
      release(r.in, record);
    }
    EXPECT_EQ(r.in.tail, 5 * small);
  }
}

TEST(ring, a_record_too_long_for_the_end_wraps) {
  for (std::uint64_t left = 16; left < 1024; left += 16) {
    private_ring r(small, small - left);
    const auto bytes = static_cast<std::uint32_t>(left + 1);
    ASSERT_TRUE(send(r.out, bytes, left));
    ASSERT_TRUE(has_record(r.in, r.in.tail));
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, bytes, left), "") << left;
    EXPECT_EQ(record.data, r.base());
    release(r.in, record);
    EXPECT_FALSE(peek(r.in));
  }
}

TEST(ring, a_record_that_just_fits_the_end_stays_there) {
  for (std::uint64_t left = 16; left <= 1024; left += 16) {
    private_ring r(small, small - left);
    const auto bytes = static_cast<std::uint32_t>(left);
    ASSERT_TRUE(send(r.out, bytes, left));
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, bytes, left), "");
    EXPECT_EQ(record.data, r.base() + small - left);
    release(r.in, record);
    EXPECT_FALSE(peek(r.in));
  }
}

TEST(ring, max_records_wrap) {
  for (const std::uint64_t size : {small, 4 * small, 16 * small}) {
    for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{16}, size - 16}) {
      private_ring r(size, start);
      const std::uint32_t bytes = record_limit(size);
      for (unsigned n = 0; n < 20; ++n) {
        ASSERT_TRUE(send(r.out, bytes, n)) << size << " from " << start << ", record " << n;
        const record_view record = peek(r.in);
        ASSERT_EQ(wrong_with(record, bytes, n), "");
        release(r.in, record);
      }
    }
  }
}

// Here a quarter ring is more than a commit word can hold.
TEST(ring, max_records_wrap_in_the_largest_ring) {
  constexpr std::uint64_t size = std::uint64_t{1} << 26;
  constexpr std::uint32_t bytes = record_limit(size);
  static_assert(bytes > (1U << 24) - 64 && bytes < 1U << 24);
  private_ring r(size);
  for (unsigned n = 0; n < 9; ++n) {
    std::byte* record = try_reserve(r.out, bytes);
    ASSERT_NE(record, nullptr) << "record " << n;
    record[bytes - 1] = static_cast<std::byte>(n + 1);
    commit(r.out, record, bytes, record_kind::request);
    const record_view arrived = peek(r.in);
    ASSERT_EQ(arrived.bytes, bytes);
    EXPECT_EQ(arrived.data[bytes - 1], static_cast<std::byte>(n + 1));
    release(r.in, arrived);
  }
}

TEST(ring, counters_may_pass_any_power_of_two) {
  constexpr std::uint64_t overflow = 0; // of 64 bits
  for (const std::uint64_t edge : {std::uint64_t{1} << 31, std::uint64_t{1} << 32,
                                   std::uint64_t{3} << 32, std::uint64_t{1} << 63, overflow}) {
    for (const std::uint64_t before : {std::uint64_t{16}, small - 32, small, 3 * small + 48}) {
      private_ring r(small, edge - before);
      std::deque<std::uint64_t> waiting;
      std::uint64_t n = 0;
      while (r.in.tail - (edge - before) < before + 4 * small) {
        const auto bytes = static_cast<std::uint32_t>(8 + n * 37 % 1017);
        if (send(r.out, bytes, n)) {
          waiting.push_back(n++);
          continue;
        }
        ASSERT_FALSE(waiting.empty()) << "stuck at edge " << edge << " less " << before;
        const std::uint64_t first = waiting.front();
        waiting.pop_front();
        const record_view record = peek(r.in);
        ASSERT_EQ(wrong_with(record, static_cast<std::uint32_t>(8 + first * 37 % 1017), first), "")
            << "at edge " << edge << " less " << before;
        release(r.in, record);
      }
    }
  }
}

TEST(ring, stale_payload_is_never_taken_for_a_record) {
  private_ring r(small);
  std::mt19937 random(1);
  // The whole body consists of commit words, so any later record ends at a plausible one.
  const auto send_disguised = [&](std::uint32_t bytes, std::uint32_t n) {
    std::byte* record = try_reserve(r.out, bytes);
    if (record == nullptr) return false;
    const std::array<std::uint32_t, 4> words{commit_word(32, record_kind::request), n,
                                             commit_word(32, record_kind::request), n};
    for (std::uint32_t at = 16; at + 16 <= bytes; at += 16) {
      std::memcpy(record + at, words.data(), 16);
    }
    std::memcpy(record + 4, &n, 4);
    commit(r.out, record, bytes, record_kind::reply);
    return true;
  };
  std::deque<std::pair<std::uint32_t, std::uint32_t>> waiting;
  for (std::uint32_t n = 0; n < 20000; ++n) {
    const auto bytes = static_cast<std::uint32_t>(16 + random() % 60 * 16);
    while (!send_disguised(bytes, n)) {
      ASSERT_FALSE(waiting.empty());
      const auto [expected_bytes, expected_n] = waiting.front();
      waiting.pop_front();
      const record_view record = peek(r.in);
      std::uint32_t arrived_n = 0;
      std::memcpy(&arrived_n, record.data + 4, 4);
      ASSERT_EQ(record.kind, record_kind::reply);
      ASSERT_EQ(record.bytes, expected_bytes);
      ASSERT_EQ(arrived_n, expected_n);
      release(r.in, record);
    }
    waiting.emplace_back(bytes, n);
    if (random() % 8 != 0) continue;
    for (; !waiting.empty(); waiting.pop_front()) {
      const record_view record = peek(r.in);
      ASSERT_EQ(record.kind, record_kind::reply);
      ASSERT_EQ(record.bytes, waiting.front().first);
      release(r.in, record);
    }
    ASSERT_FALSE(peek(r.in)) << "after record " << n;
  }
}

TEST(ring, any_mixture_of_lengths_arrives_in_order) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const std::uint64_t size = small << random() % 3;
    private_ring r(size, std::uint64_t{random()} * record_alignment);
    const std::uint32_t longest = random() % 2 == 0 ? 64 : record_limit(size);
    std::deque<std::pair<std::uint32_t, std::uint64_t>> waiting;
    std::uint64_t n = 0;
    for (int step = 0; step < 5000; ++step) {
      if (random() % 2 == 0) {
        const auto bytes = static_cast<std::uint32_t>(8 + random() % (longest - 7));
        if (send(r.out, bytes, n)) {
          waiting.emplace_back(bytes, n++);
        } else {
          ASSERT_FALSE(waiting.empty()) << "an empty ring refused " << bytes << " bytes";
        }
        continue;
      }
      const record_view record = peek(r.in);
      if (waiting.empty()) {
        ASSERT_FALSE(record);
        continue;
      }
      ASSERT_EQ(wrong_with(record, waiting.front().first, waiting.front().second), "");
      waiting.pop_front();
      release(r.in, record);
    }
  }
}

TEST(ring, a_refusal_follows_the_records_and_ends_the_ring) {
  for (std::uint64_t start = small - 192; start < small + 64; start += 16) {
    private_ring r(small, start);
    int notifications = 0;
    notify_on_commit(
        r.out, [](void* context) noexcept { ++*static_cast<int*>(context); }, &notifications);
    ASSERT_TRUE(send(r.out, 100, 1));
    refuse(r.out);
    EXPECT_EQ(notifications, 2);
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, 100, 1), "");
    release(r.in, record);
    EXPECT_TRUE(has_record(r.in, r.in.tail));
    EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
    EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
  }
}

TEST(ring, even_a_full_ring_can_be_refused) {
  private_ring r(small);
  unsigned sent = 0;
  while (send(r.out, 48, sent))
    ++sent;
  refuse(r.out);
  for (unsigned n = 0; n < sent; ++n) {
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, 48, n), "");
    release(r.in, record);
  }
  EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
}

TEST(ring, a_closed_receiver_finds_and_publishes_nothing) {
  for (unsigned n = 0; n < 300; n += 7) {
    private_ring r(small);
    for (unsigned i = 0; i < n; ++i) {
      ASSERT_TRUE(send(r.out, 48, i));
      release(r.in, peek(r.in));
    }
    ASSERT_TRUE(send(r.out, 48, n));
    const std::uint64_t read = r.in.tail;
    const std::uint64_t told = r.in.consumed->load(std::memory_order_relaxed);
    const std::atomic<std::uint64_t>& consumed = *r.in.consumed;
    const record_view current = peek(r.in);
    close(r.in);
    EXPECT_FALSE(peek(r.in));
    EXPECT_FALSE(has_record(r.in, read)) << "where it was";
    // The receiver may still release the record that it was reading, any number of times.
    for (int i = 0; i < 200; ++i)
      release(r.in, current);
    EXPECT_FALSE(peek(r.in));
    EXPECT_EQ(consumed.load(std::memory_order_relaxed), told);
    EXPECT_EQ(wrong_with(current, 48, n), "") << "what is there stays there";
  }
}

TEST(ring, a_closed_ring_has_no_space_and_is_drained) {
  for (const std::uint64_t start : {std::uint64_t{0}, small - 16, small * 5 + 64,
                                    std::uint64_t{0} - small, std::uint64_t{1} << 63}) {
    private_ring r(small, start);
    ASSERT_TRUE(send(r.out, 100, 1));
    close(r.out);
    close(r.out);
    for (const std::uint32_t bytes : {8U, 16U, 100U, record_limit(small)})
      EXPECT_EQ(try_reserve(r.out, bytes), nullptr) << start << ", " << bytes;
    const record_view record = peek(r.in);
    ASSERT_EQ(wrong_with(record, 100, 1), "");
    release(r.in, record);
    EXPECT_FALSE(peek(r.in));
    EXPECT_EQ(try_reserve(r.out, 8), nullptr) << "reading gives no space either";
  }
}

TEST(ring, a_cleared_ring_reads_as_empty) {
  private_ring r(small);
  ASSERT_TRUE(send(r.out, 100, 1));
  clear_ring(r.base());
  EXPECT_FALSE(peek(r.in));
}

TEST(ring, skipping_ends_behind_committed_records_and_pads) {
  private_ring r(small);
  for (std::uint64_t n = 0; n < 200; ++n) {
    ASSERT_TRUE(send(r.out, static_cast<std::uint32_t>(8 + n * 37 % 1000), n));
    if (n % 3 == 0) {
      ASSERT_TRUE(send(r.out, 16, n));
    }
    EXPECT_EQ(skip_committed(r.in), 0U);
    ASSERT_EQ(r.in.tail, r.out.head);
    r.consumed().store(r.in.tail);
  }
  refuse(r.out);
  EXPECT_EQ(skip_committed(r.in), commit_word(0, record_kind::corrupt));
  EXPECT_EQ(r.in.tail, r.out.head);
}

// ---- waking -------------------------------------------------------------------------------------

TEST(ring, a_commit_notifies_only_if_armed) {
  private_ring r(small);
  std::atomic<std::uint32_t> armed{0};
  int notifications = 0;
  r.out.armed = &armed;
  r.out.notify = [](void* context) noexcept { ++*static_cast<int*>(context); };
  r.out.notify_context = &notifications;
  ASSERT_TRUE(send(r.out, 24, 0));
  EXPECT_EQ(notifications, 0);
  armed = 1;
  ASSERT_TRUE(send(r.out, 24, 1));
  ASSERT_TRUE(send(r.out, 24, 2));
  EXPECT_EQ(notifications, 2);
  armed = 0;
  ASSERT_TRUE(send(r.out, 24, 3));
  EXPECT_EQ(notifications, 2);
}

TEST(ring, a_commit_notifies_an_armed_doorbell) {
  private_ring r(small);
  doorbell wakes;
  notify_on_commit(r.out, wakes);
  ASSERT_TRUE(send(r.out, 24, 0));
  EXPECT_EQ(wakes.word, 0U);
  wakes.word = armed_flag;
  ASSERT_TRUE(send(r.out, 24, 1));
  EXPECT_EQ(wakes.word, 2U) << "the flag is down, one ring is counted";
}

TEST(ring, reservations_and_pads_do_not_notify) {
  private_ring r(small, small - 16);
  int notifications = 0;
  notify_on_commit(
      r.out, [](void* context) noexcept { ++*static_cast<int*>(context); }, &notifications);
  ASSERT_NE(try_reserve(r.out, 64), nullptr);
  EXPECT_EQ(notifications, 0);
}

} // namespace
} // namespace farcall::ring_test
