// SPDX-License-Identifier: Apache-2.0
#include "local_memory.hpp"

#include <tools/common/outcome.hpp>

#include <cstdint>

#include <gtest/gtest.h>

namespace farcall::tool {
namespace {

TEST(local_memory, small_pages_stay_small) {
  const local_memory block{2 * bytes_of_huge_page, pages::small};
  EXPECT_EQ(block.bytes().size(), 2 * bytes_of_huge_page);
  EXPECT_EQ(huge_bytes_at(block.bytes().data()), 0U);
}

// Machines may have a pool or not; both cases are checked.
TEST(local_memory, has_pages_of_the_pool_or_fails) {
  constexpr std::size_t bytes = bytes_of_huge_page + 4096;
  const std::size_t were_free = free_pool_pages();
  try {
    const local_memory block{bytes, pages::hugetlb};
    EXPECT_EQ(block.bytes().size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.bytes().data()) % bytes_of_huge_page, 0U);
    EXPECT_EQ(huge_bytes_at(block.bytes().data()), 2 * bytes_of_huge_page);
  } catch (const failed_run&) {
    EXPECT_LT(were_free, 2U);
  }
}

} // namespace
} // namespace farcall::tool
