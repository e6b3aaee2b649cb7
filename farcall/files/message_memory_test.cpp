// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/message_memory.hpp>

#include <gtest/gtest.h>

#include <cstddef>

namespace farcall::files::message_memory_test {
namespace {

TEST(memory_of_messages, keeps_little_after_a_large_message) {
  message_memory memory;
  memory.begin(std::size_t{1} << 20);
  EXPECT_EQ(memory.size(), std::size_t{1} << 20);
  memory.data()[(std::size_t{1} << 20) - 1] = std::byte{1};
  memory.end();
  EXPECT_LE(memory.space(), message_memory::max_kept);
  memory.begin(message_memory::max_kept);
  const std::byte* const kept = memory.data();
  memory.end();
  memory.begin(100);
  EXPECT_EQ(memory.data(), kept);
  EXPECT_EQ(memory.size(), 100U);
  memory.shorten(200);
  EXPECT_EQ(memory.size(), 100U);
  memory.shorten(0);
  EXPECT_EQ(memory.size(), 0U);
}

} // namespace
} // namespace farcall::files::message_memory_test
