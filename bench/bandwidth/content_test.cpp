// SPDX-License-Identifier: Apache-2.0
#include "content.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

constexpr std::size_t three_pieces = 3 * bytes_per_mark;
constexpr block_content marked{.round = 7, .is_marked = true};

std::vector<std::byte> filled(std::size_t bytes, std::uint64_t round) {
  std::vector<std::byte> block(bytes);
  fill_block(block, round);
  return block;
}

std::vector<std::byte> marked_block_of(std::size_t bytes, std::uint64_t round) {
  std::vector<std::byte> block = filled(bytes, round);
  mark_block(block, round);
  return block;
}

TEST(block_content, is_found_right_where_it_is) {
  EXPECT_EQ(first_wrong_word(filled(three_pieces, 7), {.round = 7}), std::nullopt);
  EXPECT_EQ(first_wrong_word(marked_block_of(three_pieces, 7), marked), std::nullopt);
  EXPECT_EQ(first_wrong_word(marked_block_of(bytes_per_mark + 64, 7), marked), std::nullopt);
}

TEST(block_content, each_single_byte_counts) {
  const std::vector<std::byte> right = marked_block_of(bytes_per_mark, 7);
  std::vector<std::byte> block = right;
  for (std::size_t at = 0; at < block.size(); at += 251) {
    block[at] ^= std::byte{0x10};
    EXPECT_EQ(first_wrong_word(block, marked), at / 8 * 8);
    block[at] = right[at];
  }
  block.back() ^= std::byte{0x80};
  EXPECT_EQ(first_wrong_word(block, marked), block.size() - 8);
}

TEST(block_content, differs_in_each_word_from_another_round) {
  std::vector<std::byte> block = filled(three_pieces, 8);
  const std::vector<std::byte> stale = filled(three_pieces, 7);
  for (std::size_t at = 0; at < block.size(); at += 8)
    ASSERT_NE(std::memcmp(&block[at], &stale[at], 8), 0) << at;
  EXPECT_EQ(first_wrong_word(block, {.round = 7}), 0U);
}

TEST(block_content, is_wrong_from_a_shift_on) {
  const std::vector<std::byte> right = filled(three_pieces, 7);
  for (const std::size_t by : {1UL, 7UL, 8UL, 64UL, 4096UL, bytes_per_mark}) {
    std::vector<std::byte> block = right;
    std::memmove(block.data() + 4096 + by, block.data() + 4096, block.size() - 4096 - by);
    const auto wrong = first_wrong_word(block, {.round = 7});
    ASSERT_TRUE(wrong) << by;
    EXPECT_EQ(*wrong, 4096 + by / 8 * 8) << by;
  }
}

TEST(block_content, a_piece_of_the_copy_before_lacks_its_mark) {
  const std::vector<std::byte> before = filled(three_pieces, 7);
  for (std::size_t piece = 0; piece < three_pieces; piece += bytes_per_mark) {
    std::vector<std::byte> block = marked_block_of(three_pieces, 7);
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(piece), bytes_per_mark,
                block.begin() + static_cast<std::ptrdiff_t>(piece));
    const auto wrong = first_wrong_word(block, marked);
    ASSERT_TRUE(wrong);
    EXPECT_EQ(*wrong / bytes_per_mark, piece / bytes_per_mark);
  }
}

TEST(block_content, marks_lie_elsewhere_in_each_round) {
  std::vector<std::size_t> places;
  for (std::uint64_t round = 1; round <= 16; ++round) {
    for_each_mark(bytes_per_mark, round,
                  [&](std::size_t offset, std::uint64_t) { places.push_back(offset); });
  }
  ASSERT_EQ(places.size(), 16U);
  std::sort(places.begin(), places.end());
  EXPECT_GT(std::unique(places.begin(), places.end()) - places.begin(), 12);
  EXPECT_LT(places.back(), bytes_per_mark);
}

} // namespace
} // namespace farcall::tool
