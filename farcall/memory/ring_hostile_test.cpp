// SPDX-License-Identifier: Apache-2.0

// A faulty or malicious peer may write anything into a ring, and harms only itself.

#include <farcall/memory/ring.hpp>
#include <tests/ring_support.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace farcall::ring_hostile_test {
namespace {

using test::private_ring;
using test::send;

constexpr std::uint64_t small = min_ring;

// The rule in docs/wire.md, written differently than in the ring.
bool is_message(std::uint32_t word, std::uint64_t offset) {
  const unsigned kind = word / 0x1000000;
  const unsigned bytes = word % 0x1000000;
  if (kind < 2 || kind > 254) return false;
  return bytes >= 8 && bytes <= small / 4 && bytes <= small - offset;
}

TEST(hostile_ring, commit_words_are_accepted_inside_the_ring_only) {
  constexpr std::uint64_t offsets[] = {0, 16, 2048, small - 1024, small - 1008, small - 16};
  private_ring r(small);
  for (const std::uint64_t offset : offsets) {
    for (unsigned kind = 0; kind < 256; ++kind) {
      for (std::uint32_t bytes = 0; bytes <= small + 64; ++bytes) {
        const std::uint32_t word = kind * 0x1000000 + bytes;
        const bool is_pad = kind == 1 && bytes == small - offset && offset != 0;
        if (word == 0 || is_pad) continue;
        r.forge(offset, word);
        r.in.tail = offset;
        const record_view record = peek(r.in);
        if (is_message(word, offset)) {
          ASSERT_EQ(record.data, r.base() + offset) << word << " at " << offset;
          ASSERT_EQ(record.bytes, bytes);
          ASSERT_EQ(static_cast<unsigned>(record.kind), kind);
        } else if (word == commit_word(0, record_kind::lost)) {
          ASSERT_EQ(record.kind, record_kind::lost);
          ASSERT_EQ(record.bytes, 0U);
        } else {
          ASSERT_EQ(record.kind, record_kind::corrupt) << word << " at " << offset;
          ASSERT_EQ(record.bytes, 0U);
        }
        ASSERT_EQ(r.in.tail, offset) << "peek() moved on";
        if (kind < 2 || kind > 254) continue;
        const auto see = [&](const std::byte* data, std::uint32_t length) {
          EXPECT_TRUE(data == r.base() + offset && length == bytes);
          return true;
        };
        r.in.published = offset;
        ASSERT_EQ(receive_each(r.in, static_cast<record_kind>(kind), 1, see),
                  is_message(word, offset) ? 1U : 0U)
            << word << " at " << offset;
      }
    }
    r.forge(offset, 0);
  }
}

TEST(hostile_ring, lengths_up_to_the_largest_word_are_refused) {
  private_ring r(small);
  for (std::uint32_t bytes = small; bytes <= max_record; bytes += 4093) {
    for (const unsigned kind : {1U, 2U, 4U, 7U, 254U, 255U}) {
      r.forge(0, kind * 0x1000000 + bytes);
      ASSERT_EQ(peek(r.in).kind, record_kind::corrupt) << kind << ", " << bytes;
    }
  }
}

TEST(hostile_ring, a_word_changed_after_the_poll_changes_nothing) {
  private_ring r(small);
  ASSERT_TRUE(send(r.out, 100, 1));
  const record_view record = peek(r.in);
  r.forge(0, commit_word(0xFFFFFF, record_kind::request));
  release(r.in, record);
  EXPECT_EQ(r.in.tail, 112U);
}

TEST(hostile_ring, a_pad_of_any_other_length_is_refused) {
  constexpr std::uint64_t offset = small - 512;
  for (std::uint32_t bytes = 0; bytes <= 1024; ++bytes) {
    if (bytes == 512) continue;
    private_ring r(small, offset);
    r.forge(offset, commit_word(bytes, record_kind::pad));
    ASSERT_EQ(peek(r.in).kind, record_kind::corrupt) << bytes;
    ASSERT_EQ(r.in.tail, offset);
  }
}

TEST(hostile_ring, a_pad_of_a_whole_ring_is_refused) {
  private_ring r(small);
  r.forge(0, commit_word(small, record_kind::pad));
  EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
  EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
}

// A ring full of pads must not keep the receiver in an endless loop.
TEST(hostile_ring, pads_behind_pads_are_refused) {
  private_ring r(small, small - 64);
  r.forge(small - 64, commit_word(64, record_kind::pad));
  r.forge(0, commit_word(small, record_kind::pad));
  EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
  EXPECT_EQ(peek(r.in).kind, record_kind::corrupt);
}

TEST(hostile_ring, a_pad_anywhere_leads_to_the_rings_start) {
  for (std::uint64_t offset = 16; offset < small; offset += 16) {
    private_ring r(small, offset);
    r.forge(offset, commit_word(static_cast<std::uint32_t>(small - offset), record_kind::pad));
    ASSERT_FALSE(peek(r.in)) << offset;
    ASSERT_EQ(r.in.tail, small);
    r.forge(0, commit_word(24, record_kind::reply));
    ASSERT_EQ(peek(r.in).data, r.base());
  }
}

TEST(hostile_ring, corrupt_stays_corrupt) {
  private_ring r(small);
  r.forge(0, commit_word(7, record_kind::request));
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(peek(r.in).kind, record_kind::corrupt);
}

TEST(hostile_ring, a_position_ahead_of_the_sender_gives_no_space) {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{0} - small}) {
    for (const std::uint64_t ahead : {std::uint64_t{1}, std::uint64_t{16}, small,
                                      std::uint64_t{1} << 32, std::uint64_t{1} << 63}) {
      private_ring r(small, start);
      while (send(r.out, 64, 0)) {
      }
      r.consumed() = r.out.head + ahead;
      EXPECT_EQ(try_reserve(r.out, 64), nullptr) << ahead;
    }
  }
}

TEST(hostile_ring, a_position_too_far_behind_gives_no_space) {
  for (const std::uint64_t behind :
       {small + 1, small + 16, 2 * small, std::uint64_t{1} << 40, std::uint64_t{1} << 63}) {
    private_ring r(small, std::uint64_t{1} << 41);
    while (send(r.out, 64, 0)) {
    }
    r.consumed() = r.out.head - behind;
    EXPECT_EQ(try_reserve(r.out, 64), nullptr) << behind;
  }
}

TEST(hostile_ring, accepts_valid_positions_after_an_invalid_one) {
  private_ring r(small);
  while (send(r.out, 64, 0)) {
  }
  r.consumed() = UINT64_MAX;
  ASSERT_EQ(try_reserve(r.out, 64), nullptr);
  r.consumed() = 1024;
  EXPECT_NE(try_reserve(r.out, 64), nullptr);
}

// Reservations and the word behind them stay inside the ring, for any position that the receiver
// publishes.
TEST(hostile_ring, any_position_keeps_the_sender_inside_the_ring) {
  private_ring r(small);
  for (std::uint64_t n = 0; n < 200000; ++n) {
    const std::uint64_t dice = test::scrambled(n);
    switch (dice % 4) {
    case 0:
      r.consumed() = test::scrambled(dice);
      break;
    case 1:
      r.consumed() = r.out.head - dice / 4 % (2 * small);
      break;
    case 2:
      r.consumed() = r.out.head + dice / 4 % (2 * small);
      break;
    default:
      r.consumed() = r.out.head;
      break;
    }
    const auto bytes = static_cast<std::uint32_t>(8 + dice / 64 % (small / 4 - 7));
    std::byte* record = try_reserve(r.out, bytes);
    if (record == nullptr) continue;
    ASSERT_GE(record, r.base());
    ASSERT_LE(record + bytes, r.base() + small);
    ASSERT_EQ(static_cast<std::uint64_t>(record - r.base()) % record_alignment, 0U);
    commit(r.out, record, bytes, record_kind::request);
    ASSERT_EQ(r.out.head % record_alignment, 0U);
  }
}

// A sender that writes random bytes everywhere, and a receiver that reads what it finds.
TEST(hostile_ring, reading_random_memory_stays_inside_the_ring_and_ends) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    private_ring r(small, std::uint64_t{seed} * 16);
    for (std::uint64_t offset = 0; offset < small; offset += 16) {
      const std::uint64_t dice = test::scrambled(seed * small + offset);
      // Mostly plausible lengths, so that the reader gets further.
      r.forge(offset,
              commit_word(static_cast<std::uint32_t>(dice / 8 % (dice % 8 == 0 ? small : 80)),
                          static_cast<record_kind>(dice >> 40 & 7)));
    }
    for (int i = 0; i < 2000; ++i) {
      const record_view record = peek(r.in);
      if (!record || record.kind == record_kind::corrupt) break;
      ASSERT_GE(record.data, r.base());
      ASSERT_LE(record.data + record.bytes, r.base() + small);
      const std::uint64_t before = r.in.tail;
      release(r.in, record);
      ASSERT_GT(r.in.tail, before);
    }
    ASSERT_EQ(r.consumed().load() % record_alignment, 0U);
  }
}

} // namespace
} // namespace farcall::ring_hostile_test
