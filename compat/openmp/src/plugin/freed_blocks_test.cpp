// SPDX-License-Identifier: Apache-2.0
#include "freed_blocks.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farcall::openmp::freed_blocks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t large = freed_blocks::kept_from;

TEST(openmp_freed_blocks, are_taken_again_by_allocations_of_their_size) {
  freed_blocks blocks;
  blocks.add(1, large);
  blocks.add(2, 2 * large);
  EXPECT_TRUE(blocks.keep(1));
  EXPECT_TRUE(blocks.keep(2));
  EXPECT_EQ(blocks.take(large + 1), std::nullopt);
  EXPECT_EQ(blocks.take(2 * large), 2U);
  EXPECT_EQ(blocks.take(2 * large), std::nullopt) << "it is in use";
  EXPECT_EQ(blocks.take(large), 1U);
  EXPECT_TRUE(blocks.keep(1)) << "again";
}

TEST(openmp_freed_blocks, are_not_kept_if_they_are_small) {
  freed_blocks blocks;
  EXPECT_THAT(blocks.make_space(large - 1), IsEmpty());
  blocks.add(1, large - 1);
  EXPECT_FALSE(blocks.keep(1));
  EXPECT_EQ(blocks.take(large - 1), std::nullopt);
}

TEST(openmp_freed_blocks, are_dropped_beyond_the_most_memory_in_use) {
  freed_blocks blocks;
  for (std::uint64_t address : {1, 2, 3})
    blocks.add(address, large);
  for (std::uint64_t address : {2, 1, 3})
    EXPECT_TRUE(blocks.keep(address));
  EXPECT_THAT(blocks.make_space(large + 1), ElementsAre(2, 1)) << "the oldest first";
  blocks.add(4, large + 1);
  EXPECT_EQ(blocks.take(large), 3U);
  EXPECT_THAT(blocks.make_space(large), IsEmpty());
  EXPECT_THAT(blocks.drop(), IsEmpty());
}

TEST(openmp_freed_blocks, leave_space_for_larger_blocks) {
  freed_blocks blocks;
  blocks.add(1, large);
  EXPECT_TRUE(blocks.keep(1));
  EXPECT_THAT(blocks.make_space(5 * large), ElementsAre(1));
}

TEST(openmp_freed_blocks, are_dropped_on_demand) {
  freed_blocks blocks;
  blocks.add(1, large);
  blocks.add(2, large);
  EXPECT_TRUE(blocks.keep(1));
  EXPECT_THAT(blocks.drop(), ElementsAre(1)) << "the other one is in use";
  EXPECT_EQ(blocks.take(large), std::nullopt);
  EXPECT_TRUE(blocks.keep(2));
}

} // namespace
} // namespace farcall::openmp::freed_blocks_test
