// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/record_assembler.hpp>
#include <farcall/memory/ring.hpp>
#include <tests/ring_support.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace farcall::record_assembler_test {
namespace {

constexpr std::uint32_t size = min_ring;

std::uint32_t length_of(std::uint64_t n) { return static_cast<std::uint32_t>(8 + n * 37 % 1000); }

/// Returns the bytes that a sender with such a ring sends: `count` records, pads included.
std::vector<std::byte> stream_of_records(std::uint64_t count) {
  test::private_ring ring(size);
  std::vector<std::byte> sent;
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t before = ring.out.head;
    EXPECT_TRUE(test::send(ring.out, length_of(n), n));
    for (std::uint64_t at = before; at < ring.out.head; ++at)
      sent.push_back(ring.base()[at % size]);
    ring.consumed().store(ring.out.head);
  }
  return sent;
}

class record_assemblers : public ::testing::Test {
 protected:
  record_assemblers() { attach(in_, ring_.get(), size, consumed_); }

  /// Feeds at most `most` bytes of `stream` from `at` on, as a socket does. Returns how many, and
  /// stores the result of add() in is_sound_.
  std::size_t feed(const std::vector<std::byte>& stream, std::size_t at, std::size_t most) {
    record_assembler::parts parts{};
    const std::size_t count = assembler_.space(parts, consumed_.load());
    std::size_t done = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes =
          std::min({parts[i].iov_len, most - done, stream.size() - at - done});
      std::memcpy(parts[i].iov_base, stream.data() + at + done, bytes);
      done += bytes;
      if (bytes < parts[i].iov_len) break;
    }
    if (count != 0) is_sound_ = assembler_.add(done);
    return done;
  }

  line_aligned_memory ring_ = make_line_aligned(size);
  std::atomic<std::uint64_t> consumed_{0};
  inbox in_;
  record_assembler assembler_{ring_.get(), size};
  bool is_sound_ = true;
};

TEST_F(record_assemblers, readers_see_whole_records_only) {
  constexpr std::uint64_t count = 100;
  const std::vector<std::byte> stream = stream_of_records(count);
  std::size_t at = 0;
  std::uint64_t seen = 0;
  while (seen < count) {
    const std::size_t fed = feed(stream, at, 1 + at % 7);
    ASSERT_TRUE(is_sound_);
    at += fed;
    const record_view record = peek(in_);
    if (!record) {
      ASSERT_NE(fed, 0U) << "neither space nor a record";
      continue;
    }
    ASSERT_EQ(test::wrong_with(record, length_of(seen), seen), "") << seen;
    release(in_, record);
    ++seen;
  }
  EXPECT_EQ(at, stream.size());
  EXPECT_TRUE(assembler_.is_between_records());
  EXPECT_FALSE(peek(in_));
}

TEST_F(record_assemblers, a_full_ring_has_space_after_a_read) {
  const std::vector<std::byte> stream = stream_of_records(40);
  std::size_t at = 0;
  while (const std::size_t fed = feed(stream, at, stream.size()))
    at += fed;
  EXPECT_EQ(at, size - record_alignment) << "the word behind the last record needs space too";
  record_assembler::parts parts{};
  EXPECT_EQ(assembler_.space(parts, consumed_.load()), 0U);
  for (std::uint64_t n = 0; consumed_.load() == 0; ++n) {
    const record_view record = peek(in_);
    ASSERT_EQ(test::wrong_with(record, length_of(n), n), "");
    release(in_, record);
  }
  EXPECT_NE(assembler_.space(parts, consumed_.load()), 0U);
}

TEST_F(record_assemblers, invalid_bytes_leave_a_mark_behind_the_last_record) {
  std::vector<std::byte> stream = stream_of_records(1);
  const std::size_t good = stream.size();
  stream.resize(good + 64);
  const std::uint32_t word = commit_word(2000, record_kind::request); // longer than a quarter ring
  std::memcpy(stream.data() + good, &word, sizeof word);
  EXPECT_EQ(feed(stream, 0, stream.size()), stream.size());
  EXPECT_FALSE(is_sound_);
  const record_view record = peek(in_);
  ASSERT_EQ(test::wrong_with(record, length_of(0), 0), "");
  release(in_, record);
  EXPECT_EQ(peek(in_).kind, record_kind::corrupt);
}

TEST_F(record_assemblers, revoked_records_are_not_begun) {
  const std::vector<std::byte> stream = stream_of_records(4);
  EXPECT_EQ(feed(stream, 0, stream.size() - 1), stream.size() - 1);
  release(in_, peek(in_));
  const record_view begun = peek(in_);
  EXPECT_LT(consumed_.load(), in_.tail) << "a reader is further than it says";
  assembler_.revoke(consumed_.load());
  assembler_.revoke(consumed_.load());
  EXPECT_EQ(begun.bytes, length_of(1));
  release(in_, begun);
  EXPECT_EQ(peek(in_).kind, record_kind::lost);
  EXPECT_EQ(peek(in_).bytes, 0U);
}

TEST_F(record_assemblers, a_mark_follows_the_last_whole_record) {
  const std::vector<std::byte> stream = stream_of_records(2);
  EXPECT_EQ(feed(stream, 0, stream.size() - 1), stream.size() - 1);
  EXPECT_FALSE(assembler_.is_between_records());
  assembler_.mark(record_kind::lost);
  const record_view record = peek(in_);
  ASSERT_EQ(test::wrong_with(record, length_of(0), 0), "");
  release(in_, record);
  EXPECT_EQ(peek(in_).kind, record_kind::lost) << "the part that came is not seen";
}

} // namespace
} // namespace farcall::record_assembler_test
