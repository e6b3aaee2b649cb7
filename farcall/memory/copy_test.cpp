// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/copy.hpp>
#include <farcall/memory/copy_kernels.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace farcall::copy_test {
namespace {

constexpr std::size_t guard_bytes = 64;
constexpr unsigned char guard_value = 0xA5;

// Returns a pattern without short periods, so that a block in the wrong place is noticed.
std::vector<unsigned char> pattern(std::size_t bytes) {
  std::vector<unsigned char> result(bytes);
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  for (unsigned char& byte : result) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<unsigned char>(state >> 56U);
  }
  return result;
}

// Copies `bytes` bytes from `source + from_shift` to a place `to_shift` past a cache line, and
// checks them and the guards at both ends. gtest assertions per byte would dominate the run time.
template <class Copy>
[[nodiscard]] bool arrives(const Copy& copy, std::vector<unsigned char>& target,
                           const std::vector<unsigned char>& source, std::size_t bytes,
                           std::size_t from_shift, std::size_t to_shift) {
  const std::size_t line_start = -reinterpret_cast<std::uintptr_t>(target.data()) % 64;
  unsigned char* const guards = target.data() + line_start + to_shift;
  unsigned char* const to = guards + guard_bytes;
  const unsigned char* const from = source.data() + from_shift;
  std::memset(guards, guard_value, guard_bytes + bytes + guard_bytes);
  copy(to, from, bytes);
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (guards[i] != guard_value || to[bytes + i] != guard_value) return false;
  }
  return bytes == 0 || std::memcmp(to, from, bytes) == 0;
}

constexpr std::size_t space = 3 * guard_bytes + 128;

TEST(copy_bytes, is_exact_for_small_sizes_at_all_alignments) {
  std::vector<unsigned char> target(300 + space);
  const std::vector<unsigned char> source = pattern(300 + 64);
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
    for (std::size_t to_shift = 0; to_shift < 64; ++to_shift) {
      // All pairs of alignments for the sizes that copy_bytes() copies itself; a sample for
      // memcpy's.
      const std::size_t step = bytes <= 20 ? 1 : 13;
      for (std::size_t from_shift = 0; from_shift < 64; from_shift += step)
        ASSERT_TRUE(arrives(copy_bytes, target, source, bytes, from_shift, to_shift))
            << bytes << " bytes, source shifted by " << from_shift << ", target by " << to_shift;
    }
  }
}

TEST(copy_bytes, accepts_null_for_zero_bytes) {
  copy_bytes(nullptr, nullptr, 0);
  copy_large(nullptr, nullptr, 0);
}

TEST(copy_bytes, is_exact_around_the_switch_to_large_copies) {
  std::vector<unsigned char> target(large_copy_from + 5000 + space);
  const std::vector<unsigned char> source = pattern(large_copy_from + 5000 + 64);
  for (const std::size_t bytes : {large_copy_from - 65, large_copy_from - 1, large_copy_from,
                                  large_copy_from + 1, large_copy_from + 4999}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{63}}) {
      EXPECT_TRUE(arrives(copy_bytes, target, source, bytes, 0, shift)) << bytes << " to " << shift;
      EXPECT_TRUE(arrives(copy_bytes, target, source, bytes, shift, 0))
          << bytes << " from " << shift;
    }
  }
}

TEST(copy_bytes, is_exact_for_odd_large_sizes) {
  const std::size_t most = 2 * large_copy_from + 12345;
  std::vector<unsigned char> target(most + space);
  const std::vector<unsigned char> source = pattern(most + 64);
  EXPECT_TRUE(arrives(copy_bytes, target, source, most, 7, 33));
  EXPECT_TRUE(arrives(copy_bytes, target, source, most - 4095, 32, 17));
}

class copy_kernels_test : public testing::TestWithParam<copy_kernel> {};

TEST_P(copy_kernels_test, is_exact_for_small_sizes_at_all_alignments) {
  std::vector<unsigned char> target(300 + space);
  const std::vector<unsigned char> source = pattern(300 + 64);
  for (std::size_t bytes = 0; bytes <= 300; bytes += 1 + bytes / 16) {
    for (std::size_t to_shift = 0; to_shift < 64; ++to_shift)
      ASSERT_TRUE(arrives(GetParam().copy, target, source, bytes, bytes % 64, to_shift))
          << bytes << " bytes, target shifted by " << to_shift;
  }
}

TEST_P(copy_kernels_test, is_exact_around_its_block_size) {
  constexpr std::size_t block = 4 * 4096;
  std::vector<unsigned char> target(3 * block + space);
  const std::vector<unsigned char> source = pattern(3 * block + 64);
  for (const std::size_t blocks : {1U, 2U}) {
    for (std::size_t to_shift = 0; to_shift < 64; ++to_shift) {
      // Sizes just below and above block + head: the head, up to the first line, counts too.
      const std::size_t head = (64 - to_shift) % 64;
      for (const std::size_t around : {blocks * block, blocks * block + head}) {
        for (const std::size_t bytes : {around - 1, around, around + 1}) {
          for (const std::size_t from_shift : {0U, 1U, 32U, 63U})
            ASSERT_TRUE(arrives(GetParam().copy, target, source, bytes, from_shift, to_shift))
                << bytes << " bytes, source shifted by " << from_shift << ", target by "
                << to_shift;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(variants, copy_kernels_test,
                         testing::ValuesIn(all_copy_kernels().begin(), all_copy_kernels().end()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) { return c == ',' || c == '-'; });
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// ---- addresses that others have named
// ------------------------------------------------------------

/// Three pages: one readable and writable, one read-only, one not mapped.
struct pages {
  pages() {
    EXPECT_NE(start, MAP_FAILED);
    EXPECT_EQ(::mprotect(start + size, size, PROT_READ), 0);
    EXPECT_EQ(::munmap(start + 2 * size, size), 0);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() { ::munmap(start, 2 * size); }

  const std::size_t size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const start = static_cast<std::byte*>(
      ::mmap(nullptr, 3 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
};

TEST(copy_if_mapped, copies_mapped_memory) {
  const pages p;
  const std::vector<unsigned char> source = pattern(p.size);
  ASSERT_TRUE(copy_if_mapped(p.start, source.data(), p.size));
  EXPECT_EQ(std::memcmp(p.start, source.data(), p.size), 0);
  std::vector<unsigned char> back(2 * p.size);
  ASSERT_TRUE(copy_if_mapped(back.data(), p.start, 2 * p.size));
  EXPECT_EQ(std::memcmp(back.data(), source.data(), p.size), 0);
  EXPECT_TRUE(copy_if_mapped(nullptr, nullptr, 0));
}

TEST(copy_if_mapped, refuses_unmapped_memory) {
  const pages p;
  std::vector<std::byte> here(2 * p.size);
  EXPECT_FALSE(copy_if_mapped(here.data(), p.start + p.size, p.size + 1)) << "beyond the end";
  EXPECT_FALSE(copy_if_mapped(p.start + p.size - 1, here.data(), 2)) << "cannot be written to";
  EXPECT_FALSE(copy_if_mapped(here.data(), reinterpret_cast<const void*>(16), 8));
  EXPECT_FALSE(copy_if_mapped(reinterpret_cast<void*>(16), here.data(), 8));
}

TEST(copy_if_mapped, recognises_mapped_memory) {
  const pages p;
  EXPECT_TRUE(is_mapped(p.start + 1, 2 * p.size - 1));
  EXPECT_FALSE(is_mapped(p.start + 1, 2 * p.size));
  EXPECT_FALSE(is_mapped(reinterpret_cast<const void*>(16), 8));
  EXPECT_FALSE(is_mapped(p.start, SIZE_MAX));
  EXPECT_TRUE(is_mapped(nullptr, 0));
}

} // namespace
} // namespace farcall::copy_test
