// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace farcall::byte_stream_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Returns a message with every kind of value.
std::vector<std::byte> message() {
  byte_writer w;
  w.number(std::uint8_t{0xAB});
  w.text("lane");
  w.number(std::int64_t{-2});
  w.block(bytes_of({9, 8, 7}));
  w.number(0.5);
  return std::move(w).bytes();
}

void read_message(byte_reader& r) {
  EXPECT_EQ(r.number<std::uint8_t>(), 0xAB);
  EXPECT_EQ(r.text(), "lane");
  EXPECT_EQ(r.number<std::int64_t>(), -2);
  const auto block = r.block();
  EXPECT_TRUE(std::ranges::equal(block, bytes_of({9, 8, 7})));
  EXPECT_EQ(r.number<double>(), 0.5);
}

TEST(byte_stream, gives_back_what_was_written) {
  const auto bytes = message();
  byte_reader r(bytes, "a message");
  EXPECT_FALSE(r.empty());
  read_message(r);
  EXPECT_TRUE(r.empty());
}

TEST(byte_stream, keeps_extreme_numbers) {
  byte_writer w;
  w.number(std::numeric_limits<std::uint64_t>::max());
  w.number(std::numeric_limits<std::int32_t>::min());
  w.number(std::numeric_limits<double>::infinity());
  w.number(std::uint16_t{0});
  byte_reader r(w.bytes(), "numbers");
  EXPECT_EQ(r.number<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(r.number<std::int32_t>(), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(r.number<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(r.number<std::uint16_t>(), 0);
  EXPECT_TRUE(r.empty());
}

// Other programs read these bytes: the layout is part of the wire format.
TEST(byte_stream, packs_without_gaps_and_counts_in_32_bits) {
  byte_writer w;
  w.number(std::uint8_t{1});
  w.text("ab");
  w.block(bytes_of({5}));
  byte_writer counts;
  counts.number(std::uint8_t{1});
  counts.number(std::uint32_t{2});
  counts.number('a');
  counts.number('b');
  counts.number(std::uint32_t{1});
  counts.number(std::uint8_t{5});
  EXPECT_EQ(w.bytes(), counts.bytes());
  EXPECT_EQ(w.bytes().size(), 1U + 4 + 2 + 4 + 1);
}

TEST(byte_stream, reads_empty_texts_and_blocks) {
  byte_writer w;
  w.text("");
  w.block({});
  byte_reader r(w.bytes(), "nothing");
  EXPECT_EQ(r.text(), "");
  EXPECT_TRUE(r.block().empty());
  EXPECT_TRUE(r.empty());
}

TEST(byte_stream, texts_may_hold_any_byte) {
  const std::string text("a\0\xFF\n", 4);
  byte_writer w;
  w.text(text);
  byte_reader r(w.bytes(), "a text");
  EXPECT_EQ(r.text(), text);
}

TEST(byte_stream, a_block_is_a_view_of_the_bytes) {
  byte_writer w;
  w.block(bytes_of({1, 2}));
  byte_reader r(w.bytes(), "a block");
  EXPECT_EQ(r.block().data(), w.bytes().data() + sizeof(std::uint32_t));
}

TEST(byte_stream, refuses_a_message_cut_anywhere) {
  const auto whole = message();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A separate allocation, so that a sanitizer detects a read beyond its end.
    const std::vector<std::byte> cut(whole.begin(),
                                     whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(
        [&] {
          byte_reader r(cut, "the notice");
          read_message(r);
        },
        ThrowsMessage<malformed_message>(AllOf(HasSubstr("the notice"), HasSubstr("cut short"))))
        << size;
  }
}

TEST(byte_stream, refuses_lengths_that_the_bytes_do_not_have) {
  for (const std::uint32_t claimed : {5U, 4096U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    byte_writer w;
    w.number(claimed);
    w.number(std::uint32_t{0});
    EXPECT_THROW((void)byte_reader(w.bytes(), "x").block(), malformed_message) << claimed;
    EXPECT_THROW((void)byte_reader(w.bytes(), "x").text(), malformed_message) << claimed;
  }
}

TEST(byte_stream, refuses_overlong_texts_even_if_complete) {
  byte_writer w;
  w.text(std::string(byte_reader::max_text, 'x'));
  w.text(std::string(byte_reader::max_text + 1, 'x'));
  byte_reader r(w.bytes(), "a greeting");
  EXPECT_EQ(r.text().size(), byte_reader::max_text);
  EXPECT_THAT([&] { (void)r.text(); }, ThrowsMessage<malformed_message>(
                                           AllOf(HasSubstr("a greeting"), HasSubstr("overlong"))));
}

} // namespace
} // namespace farcall::byte_stream_test
