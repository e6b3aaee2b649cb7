// SPDX-License-Identifier: Apache-2.0
#include "tests/invariants/allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {
std::atomic<std::uint64_t> count{0};
void note() noexcept { count.fetch_add(1, std::memory_order_relaxed); }
} // namespace

namespace farcall::test {
std::uint64_t allocations() noexcept { return count.load(std::memory_order_relaxed); }
} // namespace farcall::test

// The C library's allocation functions under their internal names. operator new calls malloc().
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);

void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  note();
  return __libc_calloc(n, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  note();
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  note();
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) { __libc_free(block); }
}
