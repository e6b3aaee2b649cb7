#pragma once

#include <farcall/base/bytes.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include <sys/mman.h>

namespace farcall {

/// Less than that comes from the heap: a mapping of its own would cost more than it could leave
/// untouched, and AddressSanitizer sees the first byte too many.
inline constexpr std::size_t smallest_mapping = std::size_t{16} << 10;

struct line_aligned_delete {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept {
    if (bytes < smallest_mapping) {
      ::operator delete(memory, std::align_val_t{line_bytes});
    } else {
      ::munmap(memory, bytes);
    }
  }
};

/// Private memory that starts a line, as rings need it.
using line_aligned_memory = std::unique_ptr<std::byte[], line_aligned_delete>;

/// Zeroed, and of the machine's memory only what is used: a ring on which little has come costs
/// little. Throws std::bad_alloc.
[[nodiscard]] inline line_aligned_memory make_line_aligned(std::size_t bytes) {
  if (bytes < smallest_mapping) {
    void* const memory = ::operator new(bytes, std::align_val_t{line_bytes});
    std::memset(memory, 0, bytes);
    return line_aligned_memory(static_cast<std::byte*>(memory), line_aligned_delete{bytes});
  }
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // It may lie beside others, and one byte of any would bring a huge page for all of them.
  if (bytes < huge_page) (void)::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return line_aligned_memory(static_cast<std::byte*>(memory), line_aligned_delete{bytes});
}

} // namespace farcall
