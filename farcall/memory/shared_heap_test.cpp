// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/bytes.hpp>
#include <farcall/base/error.hpp>
#include <farcall/memory/available.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <tests/refused_calls.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace farcall::shared_heap_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

shared_heap heap_of(std::uint64_t bytes) {
  return {segment::create("farcall-heap-test", bytes), segment{}};
}

bool is_aligned(const std::byte* block, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

bool lies_in(const std::byte* block, std::uint64_t bytes,
             const std::pair<std::uint64_t, std::uint64_t>& window) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  return address >= window.first && bytes <= window.second &&
         address - window.first <= window.second - bytes;
}

/// Returns the memory in use by the file of `fd`, in bytes.
std::uint64_t pages_of(int fd) {
  struct stat status{};
  EXPECT_EQ(::fstat(fd, &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

// ---- blocks -------------------------------------------------------------------------------------

TEST(shared_heap, gives_writable_blocks_that_do_not_overlap) {
  auto heap = heap_of(64 * mib);
  std::vector<std::pair<std::byte*, std::uint64_t>> blocks;
  std::uint64_t n = 0;
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{65},
                                    std::uint64_t{4096}, 3 * mib, std::uint64_t{100}, 20 * mib}) {
    std::byte* const block = heap.allocate(bytes);
    ASSERT_TRUE(is_aligned(block, line_bytes));
    ASSERT_TRUE(lies_in(block, bytes, heap.windows().front()));
    std::memset(block, static_cast<int>(++n), bytes);
    blocks.emplace_back(block, bytes);
  }
  n = 0;
  for (const auto& [block, bytes] : blocks) {
    ++n;
    EXPECT_TRUE(std::all_of(block, block + bytes, [&](std::byte b) { return b == std::byte(n); }));
    EXPECT_TRUE(heap.release(block));
  }
}

TEST(shared_heap, gives_a_block_for_zero_bytes) {
  auto heap = heap_of(mib);
  std::byte* const one = heap.allocate(0);
  std::byte* const other = heap.allocate(0);
  EXPECT_NE(one, nullptr);
  EXPECT_NE(one, other);
  EXPECT_TRUE(heap.release(one));
  EXPECT_TRUE(heap.release(other));
}

TEST(shared_heap, keeps_alignments_up_to_a_page) {
  auto heap = heap_of(16 * mib);
  for (std::uint64_t alignment = 1; alignment <= page_bytes(); alignment *= 2) {
    for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{5000}, mib}) {
      EXPECT_TRUE(is_aligned(heap.allocate(bytes, alignment), alignment)) << alignment;
    }
  }
}

TEST(shared_heap, keeps_or_refuses_other_alignments) {
  auto heap = heap_of(64 * mib);
  for (std::uint64_t alignment = page_bytes(); alignment <= 4 * mib; alignment *= 2) {
    try {
      EXPECT_TRUE(is_aligned(heap.allocate(1, alignment), alignment)) << alignment;
    } catch (const error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr(std::to_string(alignment)), HasSubstr("align")));
    }
  }
  for (const std::uint64_t alignment : {std::uint64_t{3}, std::uint64_t{96}}) {
    EXPECT_THAT(
        [&] { (void)heap.allocate(1, alignment); },
        ThrowsMessage<error>(AllOf(HasSubstr(std::to_string(alignment)), HasSubstr("align"))));
  }
}

TEST(shared_heap, counts_bytes_in_use) {
  auto heap = heap_of(16 * mib);
  EXPECT_EQ(heap.bytes_in_use(), 0U);
  std::byte* const small = heap.allocate(100);
  std::byte* const large = heap.allocate(mib);
  EXPECT_GE(heap.bytes_in_use(), 100 + mib);
  EXPECT_LE(heap.bytes_in_use(), 256 + mib);
  heap.release(small);
  heap.release(large);
  EXPECT_EQ(heap.bytes_in_use(), 0U);
}

TEST(shared_heap, reuses_released_blocks) {
  auto heap = heap_of(16 * mib);
  for (int round = 0; round < 2000; ++round) {
    std::byte* const large = heap.allocate(8 * mib);
    std::byte* const small = heap.allocate(100);
    ASSERT_TRUE(heap.release(large));
    ASSERT_TRUE(heap.release(small));
  }
  EXPECT_EQ(heap.bytes_in_use(), 0U);
}

TEST(shared_heap, releases_its_own_blocks_only) {
  auto heap = heap_of(16 * mib);
  std::byte outside{};
  std::byte* const block = heap.allocate(1000);
  const auto [address, bytes] = heap.windows().front();
  auto* const begin = reinterpret_cast<std::byte*>(address);
  EXPECT_FALSE(heap.release(nullptr));
  EXPECT_FALSE(heap.release(&outside));
  EXPECT_FALSE(heap.release(block + 1));
  EXPECT_FALSE(heap.release(block + 64));
  EXPECT_FALSE(heap.release(begin + bytes));
  EXPECT_FALSE(heap.release(begin + bytes - 64));
  EXPECT_GT(heap.bytes_in_use(), 0U);
  EXPECT_TRUE(heap.release(block));
  EXPECT_FALSE(heap.release(block)) << "a second time";
}

// ---- out of memory ------------------------------------------------------------------------------

TEST(shared_heap, a_block_larger_than_the_segment_is_refused) {
  auto heap = heap_of(16 * mib);
  std::byte* const block = heap.allocate(mib);
  for (const std::uint64_t bytes :
       {16 * mib, 16 * mib + 1, std::uint64_t{1} << 40, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max() - 63,
        std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_THAT([&] { (void)heap.allocate(bytes); },
                ThrowsMessage<out_of_memory>(
                    AllOf(HasSubstr(std::to_string(bytes) + " bytes"),
                          HasSubstr(std::to_string(heap.bytes_in_use()) + " bytes in use"),
                          HasSubstr(std::to_string(16 * mib)))));
  }
  EXPECT_TRUE(heap.release(block));
  EXPECT_TRUE(heap.release(heap.allocate(12 * mib)));
}

TEST(shared_heap, a_full_heap_refuses_until_there_is_space) {
  auto heap = heap_of(8 * mib);
  std::vector<std::byte*> blocks;
  const auto fill = [&] {
    for (int i = 0; i < 1000; ++i)
      blocks.push_back(heap.allocate(100'000));
  };
  EXPECT_THROW(fill(), out_of_memory);
  EXPECT_GE(blocks.size(), 70U);
  ASSERT_TRUE(heap.release(blocks[10]));
  EXPECT_NE(heap.allocate(100'000), nullptr);
}

// The system would rather kill a process than refuse memory.
TEST(shared_heap, more_than_the_machines_memory_is_refused_first) {
  const std::uint64_t available = available_memory().value_or(0);
  ASSERT_GT(available, 0U);
  segment sparse = segment::create("farcall-heap-test", 4 * available);
  const unique_fd file(::fcntl(sparse.fd(), F_DUPFD_CLOEXEC, 0));
  shared_heap heap(std::move(sparse), segment{});
  EXPECT_THROW((void)heap.allocate(2 * available), out_of_memory);
  EXPECT_EQ(heap.bytes_in_use(), 0U);
  EXPECT_LT(pages_of(file.get()), mib);
}

TEST(shared_heap, a_block_without_pages_is_not_given) {
  segment memory = segment::create("farcall-heap-test", 16 * mib);
  memory.close_file();
  shared_heap heap(std::move(memory), segment{});
  std::thread([&] {
    test::refuse_system_call(SYS_madvise);
    for (int i = 0; i < 100; ++i) {
      EXPECT_THAT([&] { (void)heap.allocate(mib); },
                  ThrowsMessage<out_of_memory>(HasSubstr("has closed farcall's descriptors")));
    }
  }).join();
  EXPECT_EQ(heap.bytes_in_use(), 0U);
}

TEST(shared_heap, a_refused_system_call_is_named) {
  auto heap = heap_of(8 * mib);
  std::thread([&] {
    test::refuse_system_call(SYS_fallocate);
    test::refuse_system_call(SYS_madvise);
    EXPECT_THAT([&] { (void)heap.allocate(4 * mib); },
                ThrowsMessage<out_of_memory>(HasSubstr("fallocate() says: Function not")));
  }).join();
  EXPECT_EQ(heap.bytes_in_use(), 0U);
  EXPECT_NE(heap.allocate(4 * mib), nullptr);
}

TEST(shared_heap, every_block_has_its_pages) {
  segment memory = segment::create("farcall-heap-test", 64 * mib);
  const unique_fd file(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0));
  shared_heap heap(std::move(memory), segment{});
  EXPECT_EQ(pages_of(file.get()), 0U);
  (void)heap.allocate(5 * mib);
  EXPECT_GE(pages_of(file.get()), 5 * mib);
  EXPECT_LE(pages_of(file.get()), 16 * mib);
}

// ---- giving back --------------------------------------------------------------------------------

TEST(shared_heap, very_large_blocks_are_given_back_to_the_system) {
  segment memory = segment::create("farcall-heap-test", 256 * mib);
  const unique_fd file(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0));
  shared_heap heap(std::move(memory), segment{});
  std::byte* const neighbour = heap.allocate(mib);
  std::memset(neighbour, 0x55, mib);
  for (int round = 0; round < 3; ++round) {
    std::byte* const block = heap.allocate(96 * mib);
    std::byte* const behind = heap.allocate(mib);
    std::memset(block, 0xFF, 96 * mib);
    std::memset(behind, 0x77, mib);
    EXPECT_GE(pages_of(file.get()), 96 * mib);
    ASSERT_TRUE(heap.release(block));
    EXPECT_LE(pages_of(file.get()), 16 * mib);
    const auto untouched = [](const std::byte* from, std::byte value) {
      return std::all_of(from, from + mib, [&](std::byte b) { return b == value; });
    };
    EXPECT_TRUE(untouched(neighbour, std::byte{0x55}));
    EXPECT_TRUE(untouched(behind, std::byte{0x77}));
    ASSERT_TRUE(heap.release(behind));
  }
}

TEST(shared_heap, smaller_blocks_keep_their_pages) {
  segment memory = segment::create("farcall-heap-test", 64 * mib);
  const unique_fd file(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0));
  shared_heap heap(std::move(memory), segment{});
  ASSERT_TRUE(heap.release(heap.allocate(8 * mib)));
  EXPECT_GE(pages_of(file.get()), 8 * mib);
}

// ---- two regions --------------------------------------------------------------------------------

TEST(shared_heap, large_blocks_come_from_the_second_region) {
  // Normal pages in place of huge pages, which few machines have.
  shared_heap heap(segment::create("farcall-heap-test", 64 * mib),
                   segment::create("farcall-huge-test", 8 * mib));
  const auto windows = heap.windows();
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_EQ(windows[0].second, 64 * mib);
  EXPECT_EQ(windows[1].second, 8 * mib);
  std::byte* const small = heap.allocate(mib);
  std::byte* const large = heap.allocate(6 * mib);
  std::byte* const second = heap.allocate(6 * mib);
  EXPECT_TRUE(lies_in(small, mib, windows[0]));
  EXPECT_TRUE(lies_in(large, 6 * mib, windows[1]));
  EXPECT_TRUE(lies_in(second, 6 * mib, windows[0]));
  EXPECT_GE(heap.bytes_in_use(), 13 * mib);
  for (std::byte* block : {small, large, second})
    EXPECT_TRUE(heap.release(block));
  EXPECT_EQ(heap.bytes_in_use(), 0U);
}

// ---- threads ------------------------------------------------------------------------------------

TEST(shared_heap, serves_several_threads) {
  auto heap = heap_of(256 * mib);
  std::atomic<bool> spoiled{false};
  const auto work = [&](std::uint64_t number) {
    struct held_block {
      std::byte* data;
      std::uint64_t bytes;
      std::uint64_t mark;
    };
    std::vector<held_block> held;
    const auto give_back = [&](std::size_t at) {
      const held_block b = held[at];
      for (std::uint64_t i = 0; i < b.bytes; i += 61) {
        if (b.data[i] != test::content(b.mark, i)) spoiled = true;
      }
      if (!heap.release(b.data)) spoiled = true;
      held[at] = held.back();
      held.pop_back();
    };
    for (std::uint64_t step = 0; step < (test::under_sanitizer ? 2'000U : 10'000U); ++step) {
      const std::uint64_t dice = test::scrambled(number << 32 | step);
      if (held.size() > 20 || (dice % 3 == 0 && !held.empty())) {
        give_back(dice / 3 % held.size());
        continue;
      }
      const std::uint64_t bytes = 1 + dice / 64 % (dice % 64 == 0 ? 3 * mib : 3000);
      std::byte* const data = heap.allocate(bytes);
      for (std::uint64_t i = 0; i < bytes; i += 61)
        data[i] = test::content(dice, i);
      held.push_back({data, bytes, dice});
    }
    while (!held.empty())
      give_back(held.size() - 1);
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back(work, t);
  for (std::thread& t : threads)
    t.join();
  EXPECT_FALSE(spoiled);
  EXPECT_EQ(heap.bytes_in_use(), 0U);
}

} // namespace
} // namespace farcall::shared_heap_test
