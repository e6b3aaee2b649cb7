#pragma once

#include <farcall/base/bytes.hpp>

#include <cstddef>
#include <memory>
#include <new>

namespace farcall {

struct line_aligned_delete {
  void operator()(std::byte* memory) const noexcept {
    ::operator delete[](memory, std::align_val_t{line_bytes});
  }
};

/// Private memory that starts a line, as rings need it.
using line_aligned_memory = std::unique_ptr<std::byte[], line_aligned_delete>;

/// Zeroed. Throws std::bad_alloc.
[[nodiscard]] inline line_aligned_memory make_line_aligned(std::size_t bytes) {
  return line_aligned_memory(new (std::align_val_t{line_bytes}) std::byte[bytes]());
}

} // namespace farcall
