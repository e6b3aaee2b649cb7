// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/access_check.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::access_check_test {
namespace {

/// Six pages: two readable and writable, one read-only, one without access, one not mapped, and one
/// of a file that is shorter than its mapping.
class access_checks : public testing::Test {
 protected:
  access_checks() {
    ::mprotect(page(2), size, PROT_READ);
    ::mprotect(page(3), size, PROT_NONE);
    ::munmap(page(4), size);
    const int file = ::memfd_create("short", MFD_CLOEXEC);
    EXPECT_NE(::mmap(page(5), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
              MAP_FAILED);
    ::close(file);
  }
  ~access_checks() override { ::munmap(start, 6 * size); }
  std::byte* page(std::size_t n) const { return start + n * size; }

  const std::size_t size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const start = static_cast<std::byte*>(
      ::mmap(nullptr, 6 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
};

TEST_F(access_checks, find_readable_and_writable_memory) {
  access_check c;
  EXPECT_TRUE(c.can_write(page(0), 2 * size));
  EXPECT_TRUE(c.can_read(page(0) + 1, 3 * size - 1));
  EXPECT_FALSE(c.can_write(page(0), 2 * size + 1));
  EXPECT_FALSE(c.can_read(page(0), 3 * size + 1));
  EXPECT_FALSE(c.can_read(page(4) + 7, 1));
  EXPECT_FALSE(c.can_read(page(5), size)) << "the file is shorter";
  EXPECT_FALSE(c.can_write(page(5), size));
  EXPECT_FALSE(c.can_read(page(0), SIZE_MAX));
  EXPECT_FALSE(c.can_write(reinterpret_cast<void*>(16), 8));
  EXPECT_TRUE(c.can_read(nullptr, 0));
  EXPECT_TRUE(c.can_write(page(1) + size - 1, 1));
}

TEST_F(access_checks, try_pages_where_there_is_no_list_of_mappings) {
  access_check c;
  std::memset(start, 7, 2 * size);
  EXPECT_TRUE(c.try_pages(reinterpret_cast<std::uintptr_t>(page(0)), 3 * size, false));
  EXPECT_EQ(std::to_integer<int>(*page(1)), 7);
  EXPECT_FALSE(c.try_pages(reinterpret_cast<std::uintptr_t>(page(0)), 3 * size + 1, false));
  EXPECT_TRUE(c.try_pages(reinterpret_cast<std::uintptr_t>(page(0)) + 5, 2 * size - 5, true));
  EXPECT_EQ(std::to_integer<int>(*page(1)), 7);
  EXPECT_FALSE(c.try_pages(reinterpret_cast<std::uintptr_t>(page(0)), 2 * size + 1, true));
  EXPECT_FALSE(c.try_pages(reinterpret_cast<std::uintptr_t>(page(5)), 1, true));
  EXPECT_FALSE(c.try_pages(reinterpret_cast<std::uintptr_t>(page(5)), 1, false));
}

TEST_F(access_checks, know_pages_of_the_pool) {
  constexpr std::size_t huge = std::size_t{2} << 20;
  void* const at = ::mmap(nullptr, 3 * huge, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (at == MAP_FAILED) GTEST_SKIP() << "no huge pages are free in the pool (vm.nr_hugepages)";
  auto* const start = static_cast<std::byte*>(at);
  ::mprotect(start + huge, huge, PROT_READ);
  ::munmap(start + 2 * huge, huge);
  access_check c;
  EXPECT_TRUE(c.can_read(start + 5, 100));
  EXPECT_TRUE(c.can_write(start + 5, 100));
  EXPECT_TRUE(c.can_read(start + huge - 5, 10));
  EXPECT_FALSE(c.can_write(start + huge - 5, 10));
  EXPECT_FALSE(c.can_write(start + huge + 5, 10));
  EXPECT_FALSE(c.can_read(start + huge - 5, huge + 6));
  ::munmap(at, 2 * huge);
}

TEST_F(access_checks, describe_the_child_in_a_child) {
  ASSERT_TRUE(access_check().can_write(page(0), size));
  const pid_t child = ::fork();
  if (child == 0) {
    ::munmap(page(0), size);
    ::_exit(access_check().can_read(page(0), size) ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace farcall::access_check_test
