// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include <sys/mman.h>

namespace farcall {

/// Least size of memory that gets its own mapping. Untouched pages of a mapping take no physical
/// memory. Smaller memory comes from the heap, because a mapping would cost more than this saves,
/// and because AddressSanitizer detects overruns of heap memory only.
inline constexpr std::size_t min_mapping = std::size_t{16} << 10;

struct line_aligned_delete {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept {
    if (bytes < min_mapping) {
      ::operator delete(memory, std::align_val_t{line_bytes});
    } else {
      ::munmap(memory, bytes);
    }
  }
};

/// Private memory that is aligned to a cache line, as rings need it.
using line_aligned_memory = std::unique_ptr<std::byte[], line_aligned_delete>;

/// Allocates zeroed memory. Untouched pages take no physical memory, so that a ring with little
/// traffic is cheap. Throws std::bad_alloc.
[[nodiscard]] inline line_aligned_memory make_line_aligned(std::size_t bytes) {
  if (bytes < min_mapping) {
    void* const memory = ::operator new(bytes, std::align_val_t{line_bytes});
    std::memset(memory, 0, bytes);
    return line_aligned_memory(static_cast<std::byte*>(memory), line_aligned_delete{bytes});
  }
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Exclude huge pages for mappings that are smaller than one. The kernel may merge neighbouring
  // mappings, and would then provide a huge page for several of them as soon as one byte is
  // touched.
  if (bytes < huge_page) (void)::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return line_aligned_memory(static_cast<std::byte*>(memory), line_aligned_delete{bytes});
}

} // namespace farcall
