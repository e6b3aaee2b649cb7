// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/user_memory.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace farcall::test::user_memory_test {
namespace {

/// Seven pages, of which the third is read-only and the sixth is not mapped.
class user_memory : public ::testing::Test {
 protected:
  user_memory() {
    page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    pages_ = static_cast<std::byte*>(
        ::mmap(nullptr, 7 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    (void)::mprotect(pages_ + 2 * page_, page_, PROT_READ);
    (void)::mprotect(pages_ + 5 * page_, page_, PROT_NONE);
  }
  ~user_memory() override { (void)::munmap(pages_, 7 * page_); }

  [[nodiscard]] std::byte* at(std::size_t page, std::size_t offset) const {
    return pages_ + page * page_ + offset;
  }

  std::size_t page_;
  std::byte* pages_;
};

TEST_F(user_memory, is_copied_if_it_is_accessible) {
  const std::vector<std::byte> from(page_, std::byte{7});
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{100}, page_}) {
    std::memset(at(0, 0), 0, page_);
    EXPECT_TRUE(files::copy_to_user(at(0, page_ - bytes), from.data(), bytes)) << bytes;
    EXPECT_EQ(std::memcmp(at(0, page_ - bytes), from.data(), bytes), 0) << bytes;
    EXPECT_EQ(at(0, 0)[0], bytes == page_ ? std::byte{7} : std::byte{0});
    std::vector<std::byte> to(page_);
    EXPECT_TRUE(files::copy_from_user(to.data(), at(0, page_ - bytes), bytes)) << bytes;
    EXPECT_EQ(std::memcmp(to.data(), from.data(), bytes), 0) << bytes;
    EXPECT_TRUE(files::is_readable(at(2, 0), bytes)) << bytes;
    EXPECT_TRUE(files::is_writable(at(0, page_ - bytes), bytes)) << bytes;
    EXPECT_EQ(std::memcmp(at(0, page_ - bytes), from.data(), bytes), 0) << bytes;
  }
}

TEST_F(user_memory, is_refused_if_it_is_inaccessible) {
  std::vector<std::byte> here(3 * page_);
  for (const std::size_t bytes : {std::size_t{2}, std::size_t{8}, std::size_t{100}, page_ + 10}) {
    // The last byte is one too many.
    EXPECT_FALSE(files::copy_to_user(at(2, 1) - bytes, here.data(), bytes)) << bytes;
    EXPECT_FALSE(files::copy_from_user(here.data(), at(5, 1) - bytes, bytes)) << bytes;
    EXPECT_FALSE(files::is_readable(at(5, 1) - bytes, bytes)) << bytes;
    EXPECT_FALSE(files::is_writable(at(5, 1) - bytes, bytes)) << bytes;
    EXPECT_FALSE(files::is_writable(at(2, 1) - bytes, bytes)) << bytes;
    // The first byte is in the bad page.
    EXPECT_FALSE(files::copy_to_user(at(2, page_ - 1), here.data(), bytes)) << bytes;
    EXPECT_FALSE(files::copy_from_user(here.data(), at(5, page_ - 1), bytes)) << bytes;
    EXPECT_FALSE(files::copy_from_user(here.data(), nullptr, bytes));
    EXPECT_FALSE(files::copy_from_user(here.data(), reinterpret_cast<void*>(SIZE_MAX - 3), bytes));
  }
  // The bad page is in the middle.
  EXPECT_FALSE(files::copy_to_user(at(1, 10), here.data(), 2 * page_));
  EXPECT_FALSE(files::copy_from_user(here.data(), at(4, 10), 2 * page_));
  EXPECT_FALSE(files::is_writable(at(0, 10), 3 * page_)) << "a page of three can only be read";
  EXPECT_TRUE(files::is_readable(at(0, 10), 3 * page_));
  EXPECT_FALSE(files::is_readable(at(3, 10), 3 * page_));
}

TEST_F(user_memory, is_checked_in_the_middle_of_long_blocks) {
  const std::size_t bytes = std::size_t{1} << 20;
  auto* const all = static_cast<std::byte*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::vector<std::byte> here(bytes, std::byte{3});
  EXPECT_TRUE(files::copy_to_user(all, here.data(), bytes));
  EXPECT_EQ(std::memcmp(all, here.data(), bytes), 0);
  (void)::munmap(all + bytes / 2, page_);
  EXPECT_FALSE(files::copy_to_user(all, here.data(), bytes));
  EXPECT_FALSE(files::copy_from_user(here.data(), all, bytes));
  (void)::munmap(all, bytes);
}

} // namespace
} // namespace farcall::test::user_memory_test
