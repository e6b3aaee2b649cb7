// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/heap.hpp>
#include <farcall/memory/segment.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace farcall {

/// Memory of this node that its peers can reach. Consists of a heap over a large, sparse shared
/// segment, and a heap over huge pages if the system has some. Thread-safe. Owns the segments.
class shared_heap {
 public:
  /// Takes ownership of the segments; `huge` may be empty.
  shared_heap(segment normal, segment huge);

  /// Returns a block of at least `bytes` bytes, aligned to `alignment`, and at least to a line. Its
  /// content is unspecified. Blocks of a huge page or more come from huge pages while some are
  /// free. Throws out_of_memory with the sizes if there is no memory. Throws error if the alignment
  /// is not a power of two or exceeds a page.
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes, std::uint64_t alignment = line_bytes);

  /// Frees a block. Returns false if `block` is not the start of a block.
  bool release(std::byte* block) noexcept;

  [[nodiscard]] std::uint64_t bytes_in_use() const;

  /// Returns the address ranges that peers map, in the order of the segments.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> windows() const;

 private:
  struct region {
    explicit region(segment s);
    /// Takes pages for a block from the system. Returns 0 or an errno, like segment::reserve().
    [[nodiscard]] int back(std::uint64_t offset, std::uint64_t bytes);
    void discard(std::uint64_t offset, std::uint64_t bytes);

    segment memory;
    heap blocks;
    std::vector<bool> backed; ///< for each chunk, true if its pages were taken from the system
  };

  /// Returns a block of the region. Returns null if the region has no space for the block, or if
  /// back() could not take pages from the system. In the second case, sets `reason` to the result
  /// of back(), which is not 0.
  [[nodiscard]] std::byte* allocate_in(region& r, std::uint64_t bytes, std::uint64_t alignment,
                                       int& reason);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<region>> regions_; ///< regions of the heap; the region of normal
                                                 ///< pages is the first
};

} // namespace farcall
