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

/// Memory of this node that its peers can reach: a heap over a large, sparse shared segment, and
/// one over huge pages where the system has some. Thread-safe. Owns the segments.
class shared_heap {
 public:
  /// Takes the segments; `huge` may be empty.
  shared_heap(segment normal, segment huge);

  /// At least `bytes` bytes, aligned to `alignment`, at least to a line. The contents are
  /// unspecified. Blocks of a huge page or more come from huge pages while there are some. Throws
  /// out_of_memory naming the sizes, and error for an alignment that is no power of two or more
  /// than a page.
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes, std::uint64_t alignment = line_bytes);

  /// Gives a block back; false when `block` is not the start of one.
  bool release(std::byte* block) noexcept;

  [[nodiscard]] std::uint64_t bytes_in_use() const;

  /// The address ranges that peers map, in the order of the segments.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> windows() const;

 private:
  struct region {
    explicit region(segment s);
    /// As segment::reserve().
    [[nodiscard]] int back(std::uint64_t offset, std::uint64_t bytes);
    void discard(std::uint64_t offset, std::uint64_t bytes);

    segment memory;
    heap blocks;
    std::vector<bool> backed; ///< by chunk: pages were taken from the system
  };

  /// Null without space in the region, and without memory; then `reason` is as of back().
  [[nodiscard]] std::byte* allocate_in(region& r, std::uint64_t bytes, std::uint64_t alignment,
                                       int& reason);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<region>> regions_; ///< normal first
};

} // namespace farcall
