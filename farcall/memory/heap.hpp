// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace farcall {

/// Hands out blocks of a large segment, as offsets. The heap never accesses the segment, because
/// its bookkeeping is in private memory of this process. Peers that share the segment therefore
/// cannot corrupt the bookkeeping, and pages without blocks are never touched. Not thread-safe: the
/// caller locks.
///
/// Blocks up to 64 KiB come from slabs of equal blocks and cost O(1). Larger blocks are found by
/// best fit; neighbouring free ranges are merged at once. If blocks of the same sizes were in use
/// before, no memory is needed from the system. The bookkeeping takes at most 1/200 of the slabs'
/// size, and 150 bytes per large block.
class heap {
 public:
  /// Manages the range [base_offset, base_offset + bytes), whose ends are rounded inwards to cache
  /// lines. The bookkeeping is allocated from `bookkeeping`, which must outlive the heap.
  heap(std::uint64_t base_offset, std::uint64_t bytes,
       std::pmr::memory_resource* bookkeeping = std::pmr::new_delete_resource());
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;
  ~heap() = default;

  /// Returns the offset of a new block of at least `bytes` bytes (at least one). The offset is a
  /// multiple of `alignment`, and so is the address if the segment's start is. Returns nothing if
  /// there is no space, `alignment` is not a power of two, or private memory has run out.
  [[nodiscard]] std::optional<std::uint64_t>
  allocate(std::uint64_t bytes, std::uint64_t alignment = line_bytes) noexcept;

  /// Frees the block that starts at `offset` and returns its size. If no block starts at `offset`,
  /// for instance because it was freed before, returns nothing and changes nothing.
  std::optional<std::uint64_t> release(std::uint64_t offset) noexcept;

  /// Returns the size of the block that starts at `offset`, which is at least the requested size.
  /// Returns nothing if no block starts at `offset`.
  [[nodiscard]] std::optional<std::uint64_t> block_size(std::uint64_t offset) const noexcept;

  /// Returns the sum of the sizes of all blocks.
  [[nodiscard]] std::uint64_t bytes_in_use() const noexcept { return bytes_in_use_; }
  /// Returns the number of blocks.
  [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return ranges_.capacity(); }

  /// Returns the largest size that allocate() would currently grant, at the default alignment. Not
  /// const, because it dissolves empty slabs.
  [[nodiscard]] std::uint64_t largest_free() noexcept;

 private:
  /// The whole heap, divided into ranges. Each range is either free, or used by a slab or a large
  /// block.
  class range_map {
   public:
    range_map(std::uint64_t begin, std::uint64_t end, std::pmr::memory_resource* bookkeeping);

    /// Takes a range and returns its offset. `bytes` and `alignment` are multiples of a line. May
    /// throw std::bad_alloc, and changes nothing in this case.
    [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
    /// Frees a used range and returns its size. Returns nothing if no used range starts at
    /// `offset`.
    std::optional<std::uint64_t> give_back(std::uint64_t offset) noexcept;
    /// Returns the size of the used range that starts at `offset`; nothing if there is none.
    [[nodiscard]] std::optional<std::uint64_t> size_of(std::uint64_t offset) const noexcept;
    [[nodiscard]] std::uint64_t largest_free() const noexcept;
    [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }

   private:
    using free_set = std::pmr::set<std::pair<std::uint64_t, std::uint64_t>>; // size, offset
    struct range {
      std::uint64_t bytes = 0;
      // The tree node of this range in free_, kept here while the range is used. Freeing the range
      // therefore needs no memory and cannot fail. Empty while the range is free, because the node
      // is then in free_.
      free_set::node_type parked;
    };
    using offset_map = std::pmr::map<std::uint64_t, range>;

    [[nodiscard]] offset_map::node_type new_range();
    void add_free(offset_map::node_type node, std::uint64_t offset, std::uint64_t bytes) noexcept;
    void mark_free(offset_map::iterator at) noexcept;
    void mark_used(offset_map::iterator at) noexcept;

    // Memory pool that keeps the nodes of the two trees for reuse.
    std::pmr::unsynchronized_pool_resource nodes_;
    offset_map ranges_{&nodes_};
    free_set free_{&nodes_};
    std::uint64_t begin_;
    std::uint64_t capacity_;
  };

  using slab_id = std::uint32_t;
  static constexpr slab_id no_slab = 0xFFFFFFFF;
  static constexpr std::size_t class_count = 36;
  static constexpr std::size_t bitmap_words = 16;

  /// A slab: a range that is divided into equal blocks. Two levels of bits find a free block
  /// without a search.
  struct slab {
    std::uint64_t offset = 0;
    std::uint32_t block_bytes = 0;
    std::uint16_t block_count = 0;
    std::uint16_t free_count = 0;
    std::uint16_t class_index = 0;
    std::uint16_t words_with_free = 0;                   ///< bit w is set if free_bits[w] is not 0
    std::array<std::uint64_t, bitmap_words> free_bits{}; ///< a set bit means that the block is free
    slab_id previous = no_slab; ///< previous slab in the list of the slab's class
    slab_id next = no_slab;     ///< next slab in the list of the class, or next unused entry
  };

  struct size_class {
    slab_id with_space = no_slab; ///< list of the slabs with a free block
    slab_id empty = no_slab;      ///< an empty slab of the class, kept for the next allocations
  };

  /// Table of the slabs to which the 64 KiB pages of a part of the heap belong. A table covers
  /// `pages_per_table` pages, and is empty until one of these pages belongs to a slab.
  using page_table = std::pmr::vector<slab_id>;
  static constexpr std::size_t pages_per_table = 4096;

  struct block_place {
    slab_id id;
    std::uint32_t index;
  };

  [[nodiscard]] std::optional<std::uint64_t> allocate_small(std::size_t class_index);
  [[nodiscard]] std::optional<std::uint64_t> allocate_range(std::uint64_t bytes,
                                                            std::uint64_t alignment);
  [[nodiscard]] slab_id add_slab(std::size_t class_index);
  void dissolve(slab_id id) noexcept;
  bool dissolve_empty_slabs() noexcept;
  void link(slab_id id) noexcept;
  void unlink(slab_id id) noexcept;

  [[nodiscard]] slab_id& page_entry(std::uint64_t page);
  [[nodiscard]] slab_id slab_at(std::uint64_t offset) const noexcept;
  [[nodiscard]] std::uint64_t page_of(std::uint64_t offset) const noexcept;
  /// Returns the index of the used block of slab `id` that starts at `offset`. Returns nothing if
  /// no used block starts there.
  [[nodiscard]] std::optional<std::uint32_t> used_block(slab_id id,
                                                        std::uint64_t offset) const noexcept;

  range_map ranges_;
  std::pmr::vector<slab> slabs_;
  slab_id unused_entry_ = no_slab; ///< first unused entry of slabs_; the entries form a list
  std::array<size_class, class_count> classes_{};
  std::pmr::vector<page_table> page_tables_;
  std::uint64_t bytes_in_use_ = 0;
  std::uint64_t blocks_ = 0;
};

} // namespace farcall
