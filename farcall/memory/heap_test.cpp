// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/heap.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory_resource>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace farcall::heap_test {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;
constexpr std::uint64_t gib = 1024 * mib;
constexpr std::uint64_t tib = 1024 * gib;
constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

// Counts the memory that a heap takes for its bookkeeping, and can refuse it.
class counting_resource final : public std::pmr::memory_resource {
 public:
  std::uint64_t allocations = 0;
  std::uint64_t refused = 0; ///< number, from 1, of the allocation that fails; 0 for none

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (++allocations == refused) throw std::bad_alloc{};
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

TEST(heap, grants_the_requested_sizes) {
  heap h{4096, 16 * mib};
  EXPECT_EQ(h.capacity(), 16 * mib);
  EXPECT_EQ(h.largest_free(), 16 * mib);
  std::uint64_t in_use = 0;
  std::uint64_t blocks = 0;
  for (const std::uint64_t bytes :
       {1UL, 63UL, 64UL, 65UL, 512UL, 513UL, 4096UL, 65535UL, 65536UL, 65537UL, 1000000UL}) {
    const auto offset = h.allocate(bytes);
    ASSERT_TRUE(offset) << bytes;
    EXPECT_GE(*offset, 4096U);
    EXPECT_EQ(*offset % 64, 0U);
    const auto size = h.block_size(*offset);
    ASSERT_TRUE(size) << bytes;
    EXPECT_GE(*size, bytes);
    EXPECT_LE(*size, std::max<std::uint64_t>(64, bytes + bytes / 4 + 63)) << "waste for " << bytes;
    in_use += *size;
    EXPECT_EQ(h.bytes_in_use(), in_use);
    EXPECT_EQ(h.blocks(), ++blocks);
  }
}

TEST(heap, zero_bytes_give_distinct_blocks) {
  heap h{0, mib};
  const auto a = h.allocate(0);
  const auto b = h.allocate(0);
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_GE(h.block_size(*a).value_or(0), 1U);
  EXPECT_TRUE(h.release(*a));
  EXPECT_TRUE(h.release(*b));
  EXPECT_EQ(h.blocks(), 0U);
  EXPECT_EQ(h.bytes_in_use(), 0U);
}

TEST(heap, releases_only_starts_of_blocks_and_only_once) {
  heap h{1 * mib, 64 * mib};
  for (const std::uint64_t bytes : {100UL, 5000UL, 200000UL}) {
    const auto offset = h.allocate(bytes);
    ASSERT_TRUE(offset);
    const auto size = h.block_size(*offset);
    for (const std::uint64_t wrong :
         {*offset + 1, *offset + 64, *offset - 64, *offset + bytes, std::uint64_t{0},
          std::uint64_t{1 * mib - 64}, 65 * mib, most, *offset + (std::uint64_t{1} << 63U)}) {
      EXPECT_FALSE(h.release(wrong)) << wrong;
      EXPECT_FALSE(h.block_size(wrong)) << wrong;
    }
    EXPECT_EQ(h.blocks(), 1U);
    EXPECT_EQ(h.release(*offset), size);
    EXPECT_FALSE(h.release(*offset)) << "second time";
    EXPECT_FALSE(h.block_size(*offset));
    EXPECT_EQ(h.blocks(), 0U);
  }
}

TEST(heap, the_unusable_end_of_a_slab_is_no_block) {
  // 10 blocks of 6 KiB leave 4 KiB at the end of a slab of 64 KiB.
  heap h{0, 64 * kib};
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 10; ++i) {
    const auto offset = h.allocate(6 * kib);
    ASSERT_TRUE(offset);
    blocks.push_back(*offset);
  }
  EXPECT_FALSE(h.allocate(6 * kib));
  EXPECT_FALSE(h.release(60 * kib));
  EXPECT_FALSE(h.block_size(60 * kib));
  for (const std::uint64_t offset : blocks)
    EXPECT_TRUE(h.release(offset));
  EXPECT_EQ(h.largest_free(), 64 * kib);
}

TEST(heap, aligns) {
  for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{100}, 3 * mib + 4096}) {
    heap h{base, gib};
    std::vector<std::uint64_t> blocks;
    for (const std::uint64_t alignment : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{128},
                                          4 * kib, 64 * kib, 128 * kib, 2 * mib, 64 * mib}) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{65}, std::uint64_t{640},
                                        4 * kib, 5 * kib, 100 * kib, 2 * mib}) {
        const auto offset = h.allocate(bytes, alignment);
        ASSERT_TRUE(offset) << bytes << " bytes at " << alignment;
        EXPECT_EQ(*offset % alignment, 0U) << bytes << " bytes at " << alignment;
        EXPECT_GE(*offset, base);
        blocks.push_back(*offset);
      }
    }
    for (const std::uint64_t offset : blocks)
      EXPECT_TRUE(h.release(offset));
    EXPECT_EQ(h.largest_free(), h.capacity());
  }
}

TEST(heap, rounds_its_limits_inwards) {
  heap h{100, 1000};
  EXPECT_EQ(h.capacity(), 1088U - 128U);
  const auto all = h.allocate(h.capacity());
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, 128U);
  EXPECT_FALSE(h.allocate(0));
}

TEST(heap, refuses_absurd_requests) {
  heap h{0, tib};
  for (const std::uint64_t bytes : {most, most - 1, most - 63, most - 64, most / 2, tib + 1})
    EXPECT_FALSE(h.allocate(bytes)) << bytes;
  for (const std::uint64_t alignment :
       {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{65}, most, most - 1})
    EXPECT_FALSE(h.allocate(64, alignment)) << alignment;
  // The only multiple of 2^63 in this heap is offset 0.
  const std::uint64_t huge_alignment = std::uint64_t{1} << 63U;
  EXPECT_EQ(h.allocate(64, huge_alignment), 0U);
  EXPECT_FALSE(h.allocate(64, huge_alignment));
  EXPECT_FALSE(h.allocate(most, huge_alignment));
  EXPECT_EQ(h.blocks(), 1U);
}

TEST(heap, may_be_empty_or_as_large_as_numbers_go) {
  using limits = std::pair<std::uint64_t, std::uint64_t>;
  for (const auto& [base, bytes] :
       {limits{0, 0}, limits{most, most}, limits{1, 62}, limits{64, 63}, limits{most - 5, 3}}) {
    heap h{base, bytes};
    EXPECT_EQ(h.capacity(), 0U) << base;
    EXPECT_EQ(h.largest_free(), 0U);
    EXPECT_FALSE(h.allocate(0));
    EXPECT_FALSE(h.release(0));
    EXPECT_FALSE(h.release(most));
  }
  heap h{0, most};
  EXPECT_TRUE(h.allocate(100));
  const auto large = h.allocate(most / 2);
  ASSERT_TRUE(large);
  EXPECT_TRUE(h.allocate(100));
  EXPECT_FALSE(h.allocate(most / 2 + 64));
  EXPECT_TRUE(h.release(*large));
}

TEST(heap, works_to_the_last_line) {
  // Less space than one slab: small blocks come from the ranges.
  heap h{0, 10 * kib};
  std::vector<std::uint64_t> blocks;
  while (const auto offset = h.allocate(64))
    blocks.push_back(*offset);
  EXPECT_EQ(blocks.size(), 160U);
  EXPECT_EQ(h.bytes_in_use(), h.capacity());
  EXPECT_EQ(h.largest_free(), 0U);
  EXPECT_FALSE(h.allocate(0));
  ASSERT_TRUE(h.release(blocks.back()));
  blocks.pop_back();
  EXPECT_EQ(h.largest_free(), 64U);
  EXPECT_TRUE(h.allocate(64));
}

TEST(heap, fills_up_with_slabs_and_recovers) {
  heap h{0, 4 * mib};
  std::vector<std::uint64_t> blocks;
  while (const auto offset = h.allocate(4 * kib))
    blocks.push_back(*offset);
  EXPECT_EQ(blocks.size(), 1024U);
  EXPECT_FALSE(h.allocate(64));
  // One released block is space for that size, but for no larger one.
  EXPECT_TRUE(h.release(blocks[500]));
  EXPECT_EQ(h.largest_free(), 4 * kib);
  EXPECT_EQ(h.allocate(4 * kib), blocks[500]);
  for (const std::uint64_t offset : blocks)
    EXPECT_TRUE(h.release(offset));
  // The empty slab that was kept must not prevent one large block.
  EXPECT_EQ(h.allocate(4 * mib), 0U);
}

TEST(heap, an_empty_slab_gives_space_to_another_size) {
  heap h{0, 64 * kib};
  const auto a = h.allocate(64);
  ASSERT_TRUE(a && h.release(*a));
  for (int i = 0; i < 512; ++i)
    ASSERT_TRUE(h.allocate(128)) << i;
  EXPECT_FALSE(h.allocate(128));
}

TEST(heap, merges_neighbours_on_both_sides) {
  heap h{0, mib};
  const std::uint64_t quarter = 256 * kib;
  for (const auto& order : {std::array{0, 1, 2, 3}, std::array{3, 2, 1, 0}, std::array{0, 2, 1, 3},
                            std::array{1, 3, 0, 2}, std::array{0, 3, 1, 2}}) {
    std::array<std::uint64_t, 4> offsets{};
    for (std::uint64_t& offset : offsets) {
      const auto granted = h.allocate(quarter);
      ASSERT_TRUE(granted);
      offset = *granted;
    }
    EXPECT_FALSE(h.allocate(quarter));
    for (const int index : order)
      EXPECT_EQ(h.release(offsets[static_cast<std::size_t>(index)]), quarter);
    EXPECT_EQ(h.largest_free(), mib);
  }
}

TEST(heap, takes_the_range_that_fits_best) {
  heap h{0, 10 * mib};
  const auto a = h.allocate(3 * mib);
  const auto wall = h.allocate(mib);
  const auto b = h.allocate(2 * mib);
  const auto wall2 = h.allocate(mib);
  ASSERT_TRUE(a && wall && b && wall2);
  EXPECT_TRUE(h.release(*a));
  EXPECT_TRUE(h.release(*b));
  EXPECT_EQ(h.allocate(2 * mib), b) << "free: 3, 2 and 3 MiB";
}

// Random operations against a model that knows every block.
struct model_check {
  heap& tested;
  std::uint64_t begin;
  std::uint64_t end;
  std::map<std::uint64_t, std::uint64_t> blocks; // offset, size
  std::vector<std::uint64_t> offsets;
  std::uint64_t in_use = 0;

  model_check(heap& h, std::uint64_t first, std::uint64_t last)
      : tested{h}, begin{first}, end{last} {}

  void allocate(std::uint64_t bytes, std::uint64_t alignment) {
    const auto offset = tested.allocate(bytes, alignment);
    if (!offset) return;
    const auto size = tested.block_size(*offset);
    ASSERT_TRUE(size);
    ASSERT_GE(*size, std::max<std::uint64_t>(bytes, 1));
    ASSERT_EQ(*offset % alignment, 0U);
    ASSERT_GE(*offset, begin);
    ASSERT_LE(*size, end - *offset);
    const auto next = blocks.lower_bound(*offset);
    if (next != blocks.end()) {
      ASSERT_LE(*offset + *size, next->first) << "overlaps the next block";
    }
    if (next != blocks.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second, *offset) << "overlaps the block before";
    }
    blocks.emplace(*offset, *size);
    offsets.push_back(*offset);
    in_use += *size;
  }

  void release(std::size_t index) {
    const std::uint64_t offset = offsets[index];
    const auto block = blocks.find(offset);
    ASSERT_EQ(tested.release(offset), block->second);
    in_use -= block->second;
    blocks.erase(block);
    offsets[index] = offsets.back();
    offsets.pop_back();
  }

  void check() const {
    ASSERT_EQ(tested.blocks(), blocks.size());
    ASSERT_EQ(tested.bytes_in_use(), in_use);
  }
};

class heap_random_test : public testing::TestWithParam<std::uint64_t> {};

TEST_P(heap_random_test, agrees_with_a_model) {
  const std::uint64_t capacity = GetParam();
  const std::uint64_t base = 7 * 4096 + 64;
  heap h{base, capacity};
  model_check model{h, base, base + capacity};
  std::mt19937_64 random{capacity};
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  for (int phase = 0; phase < 6; ++phase) {
    for (int i = 0; i < 6000; ++i) {
      // Phases of growing and shrinking alternate.
      const bool grow = below(10) < (phase % 2 == 0 ? 7U : 3U);
      if (grow || model.offsets.empty()) {
        // Sizes spread evenly over their logarithm, up to a quarter of the heap.
        const std::uint64_t bits = below(static_cast<std::uint64_t>(std::bit_width(capacity)) - 2);
        const std::uint64_t bytes = below(std::uint64_t{2} << bits);
        const std::uint64_t alignment = below(4) != 0 ? 64 : std::uint64_t{1} << below(22);
        ASSERT_NO_FATAL_FAILURE(model.allocate(bytes, alignment));
      } else {
        ASSERT_NO_FATAL_FAILURE(model.release(below(model.offsets.size())));
      }
      // Offsets that a hostile peer might send.
      const std::uint64_t guess = base + below(capacity);
      if (!model.blocks.contains(guess)) {
        ASSERT_FALSE(h.release(guess));
      }
      ASSERT_NO_FATAL_FAILURE(model.check());
    }
    const std::uint64_t largest = h.largest_free();
    ASSERT_FALSE(h.allocate(largest + 1));
    if (largest != 0) {
      const auto all = h.allocate(largest);
      ASSERT_TRUE(all);
      ASSERT_TRUE(h.release(*all));
    }
  }
  while (!model.offsets.empty())
    ASSERT_NO_FATAL_FAILURE(model.release(model.offsets.size() - 1));
  EXPECT_EQ(h.blocks(), 0U);
  EXPECT_EQ(h.bytes_in_use(), 0U);
  EXPECT_EQ(h.largest_free(), h.capacity());
  const auto all = h.allocate(h.capacity());
  EXPECT_EQ(all, base);
}

INSTANTIATE_TEST_SUITE_P(capacities, heap_random_test,
                         testing::Values(128 * kib, 1 * mib, 64 * mib, 2 * gib, 4 * tib),
                         testing::PrintToStringParamName{});

TEST(heap, needs_no_memory_for_sizes_it_has_seen) {
  counting_resource memory;
  heap h{0, 256 * mib, &memory};
  std::vector<std::uint64_t> offsets;
  offsets.reserve(10'000);
  const auto round = [&] {
    offsets.clear();
    for (std::uint64_t i = 0; i < 5000; ++i) {
      // Several slabs of most classes, and large blocks in between.
      const std::uint64_t bytes = i % 50 == 0 ? 70 * kib + i * 64 : i * 37 % 9000;
      if (const auto offset = h.allocate(bytes)) offsets.push_back(*offset);
    }
    for (std::size_t i = 0; i < offsets.size(); i += 2)
      h.release(offsets[i]);
    for (std::size_t i = 1; i < offsets.size(); i += 2)
      h.release(offsets[i]);
  };
  round();
  ASSERT_EQ(offsets.size(), 5000U);
  ASSERT_EQ(h.blocks(), 0U);
  const std::uint64_t before = memory.allocations;
  ASSERT_GT(before, 0U) << "the counter does not count";
  for (int i = 0; i < 5; ++i)
    round();
  EXPECT_EQ(memory.allocations, before);
}

TEST(heap, survives_running_out_of_private_memory) {
  // In each round the next allocation fails, until no allocation is left to fail.
  bool all_done = false;
  for (std::uint64_t number = 1; !all_done; ++number) {
    ASSERT_LT(number, 1000U);
    counting_resource memory;
    heap h{4096, 64 * mib, &memory};
    memory.refused = memory.allocations + number;
    std::vector<std::uint64_t> offsets;
    std::size_t refusals = 0;
    for (std::uint64_t i = 0; i < 400; ++i) {
      const std::uint64_t blocks = h.blocks();
      const std::uint64_t in_use = h.bytes_in_use();
      if (const auto offset = h.allocate(i * i, i % 3 == 0 ? 4096 : 64)) {
        offsets.push_back(*offset);
        continue;
      }
      ++refusals;
      ASSERT_EQ(h.blocks(), blocks);
      ASSERT_EQ(h.bytes_in_use(), in_use);
    }
    all_done = memory.allocations < memory.refused;
    ASSERT_EQ(refusals, all_done ? 0U : 1U) << "allocation " << number;
    for (const std::uint64_t offset : offsets)
      ASSERT_TRUE(h.release(offset));
    ASSERT_EQ(h.largest_free(), h.capacity()) << "allocation " << number;
  }
}

} // namespace
} // namespace farcall::heap_test
