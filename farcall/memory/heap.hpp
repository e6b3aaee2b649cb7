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

/// Hands out blocks of a large segment, as offsets. It never touches the segment: all bookkeeping
/// is private memory of this process, so nobody who shares the segment can corrupt it, and a sparse
/// segment stays sparse. Not thread safe: the caller locks.
///
/// Blocks up to 64 KiB come from slabs of equal blocks and cost O(1); larger ones are best fit,
/// with neighbouring free ranges merged at once. Patterns of sizes that were there before need no
/// memory from the system. Private memory used: at most 1/200 of what slabs occupy, and 150
/// bytes per large block.
class heap {
 public:
  /// Manages [base_offset, base_offset + bytes), its ends rounded inwards to cache lines. The
  /// bookkeeping is allocated from `bookkeeping`, which must outlive the heap.
  heap(std::uint64_t base_offset, std::uint64_t bytes,
       std::pmr::memory_resource* bookkeeping = std::pmr::new_delete_resource());
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;
  ~heap() = default;

  /// Offset of a new block of at least `bytes` bytes (at least one), a multiple of `alignment`; the
  /// address has that alignment too when the segment's start has. None when there is no space, when
  /// `alignment` is not a power of two, or when private memory has run out.
  [[nodiscard]] std::optional<std::uint64_t>
  allocate(std::uint64_t bytes, std::uint64_t alignment = line_bytes) noexcept;

  /// Frees the block that starts at `offset` and tells its size. None, and nothing changed, when
  /// no block starts there (never did, or was freed before).
  std::optional<std::uint64_t> release(std::uint64_t offset) noexcept;

  /// Size of the block that starts at `offset`, at least what was asked for; none when no block
  /// starts there.
  [[nodiscard]] std::optional<std::uint64_t> block_size(std::uint64_t offset) const noexcept;

  /// Sum of the sizes of all blocks.
  [[nodiscard]] std::uint64_t bytes_in_use() const noexcept { return bytes_in_use_; }
  /// Number of blocks.
  [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return ranges_.capacity(); }

  /// Largest size that allocate() would return now, at the default alignment. Dissolves slabs that
  /// hold no block, hence not const.
  [[nodiscard]] std::uint64_t largest_free() noexcept;

 private:
  /// The whole heap cut into ranges, each used (a slab or a large block) or free.
  class range_map {
   public:
    range_map(std::uint64_t begin, std::uint64_t end, std::pmr::memory_resource* bookkeeping);

    /// `bytes` and `alignment` are multiples of a line. May throw std::bad_alloc; nothing has
    /// changed then.
    [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
    /// Frees a used range and tells its size; none when no used range starts there.
    std::optional<std::uint64_t> give_back(std::uint64_t offset) noexcept;
    /// Size of the used range that starts there.
    [[nodiscard]] std::optional<std::uint64_t> size_of(std::uint64_t offset) const noexcept;
    [[nodiscard]] std::uint64_t largest_free() const noexcept;
    [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }

   private:
    using free_set = std::pmr::set<std::pair<std::uint64_t, std::uint64_t>>; // size, offset
    struct range {
      std::uint64_t bytes = 0;
      // The range's entry of the free set, kept here while the range is used: so freeing needs no
      // memory and cannot fail. Empty: the range is free.
      free_set::node_type parked;
    };
    using offset_map = std::pmr::map<std::uint64_t, range>;

    [[nodiscard]] offset_map::node_type new_range();
    void add_free(offset_map::node_type node, std::uint64_t offset, std::uint64_t bytes) noexcept;
    void mark_free(offset_map::iterator at) noexcept;
    void mark_used(offset_map::iterator at) noexcept;

    // Keeps the nodes of the two trees for reuse.
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

  /// A range of equal blocks. Two levels of bits find a free one without a search.
  struct slab {
    std::uint64_t offset = 0;
    std::uint32_t block_bytes = 0;
    std::uint16_t block_count = 0;
    std::uint16_t free_count = 0;
    std::uint16_t class_index = 0;
    std::uint16_t words_with_free = 0;                   ///< bit w: free_bits[w] is not 0
    std::array<std::uint64_t, bitmap_words> free_bits{}; ///< bit: block is free
    slab_id previous = no_slab;                          ///< in the list of its class
    slab_id next = no_slab;                              ///< in that list, or among unused entries
  };

  struct size_class {
    slab_id with_room = no_slab; ///< list of the slabs that have a free block
    slab_id empty = no_slab;     ///< the one of them without any block, kept for the next burst
  };

  /// Slab of each 64 KiB page, for a stretch of the heap; empty while there is no slab in it.
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
  /// The used block of slab `id` that starts at `offset`, if one does.
  [[nodiscard]] std::optional<std::uint32_t> used_block(slab_id id,
                                                        std::uint64_t offset) const noexcept;

  range_map ranges_;
  std::pmr::vector<slab> slabs_;
  slab_id unused_entry_ = no_slab; ///< list of the entries of slabs_ that are no slab now
  std::array<size_class, class_count> classes_{};
  std::pmr::vector<page_table> page_tables_;
  std::uint64_t bytes_in_use_ = 0;
  std::uint64_t blocks_ = 0;
};

} // namespace farcall
