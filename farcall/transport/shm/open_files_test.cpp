// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/shm/open_files.hpp>

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace farcall::shm::open_files_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t bytes = 8192;

TEST(open_files, are_found_and_mapped) {
  const segment first = segment::create("first", bytes);
  const segment second = segment::create("second", 2 * bytes);
  std::memcpy(second.data(), "hello", 6);
  const memory_file own[] = {{first.fd(), first.size()}, {second.fd(), second.size()}};
  const open_files told = open_files::decode(open_files::describe(own).encode());
  EXPECT_TRUE(told.is_near());
  const std::vector<segment> there = told.map(3);
  ASSERT_EQ(there.size(), 2U);
  EXPECT_STREQ(reinterpret_cast<const char*>(there[1].data()), "hello");
  std::memcpy(there[0].data(), "back", 5);
  EXPECT_STREQ(reinterpret_cast<const char*>(first.data()), "back");
}

TEST(open_files, are_not_mapped_if_they_differ) {
  const segment memory = segment::create("memory", bytes);
  const memory_file own[] = {{memory.fd(), memory.size()}};
  const open_files right = open_files::describe(own);
  open_files other_file = right;
  ++other_file.files[0].inode;
  EXPECT_THAT([&] { (void)other_file.map(3); },
              ThrowsMessage<error>(HasSubstr("is not at /proc/")));
  open_files closed = right;
  closed.files[0].number = 900'000;
  EXPECT_THAT([&] { (void)closed.map(3); },
              ThrowsMessage<node_failed>(HasSubstr("finding the memory")));
  open_files longer = right;
  longer.files[0].bytes *= 2;
  EXPECT_THROW((void)longer.map(3), error);
  open_files elsewhere = right;
  ++elsewhere.processes;
  EXPECT_FALSE(elsewhere.is_near());
}

TEST(open_files, are_checked_when_they_are_read) {
  const segment memory = segment::create("memory", bytes);
  const memory_file own[] = {{memory.fd(), memory.size()}};
  std::vector<std::byte> told = open_files::describe(own).encode();
  for (std::size_t length = 0; length < told.size(); ++length)
    EXPECT_THROW((void)open_files::decode(std::span(told).first(length)), malformed_message);
  told.push_back(std::byte{0});
  EXPECT_THROW((void)open_files::decode(told), malformed_message);
  EXPECT_THROW((void)open_files::decode(open_files{}.encode()), malformed_message);
  open_files many = open_files::describe(own);
  many.files.resize(1000);
  EXPECT_THROW((void)open_files::decode(many.encode()), malformed_message);
}

} // namespace
} // namespace farcall::shm::open_files_test
