// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace farcall::tool {

/// Small pages, transparent huge pages, or huge pages of the pool (hugetlb).
enum class pages { small, huge, hugetlb };

inline constexpr std::size_t bytes_of_huge_page = std::size_t{2} << 20;

/// Private memory for measurements of copies, aligned to a huge page and touched by the
/// constructor. Except for the pool, the kernel chooses the kind of pages: ask huge_bytes_at().
class local_memory {
 public:
  local_memory(std::size_t bytes, pages kind);
  ~local_memory();
  local_memory(const local_memory&) = delete;
  local_memory& operator=(const local_memory&) = delete;
  local_memory(local_memory&&) = delete;
  local_memory& operator=(local_memory&&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Returns the bytes on huge pages of any kind (transparent, pool, shared memory), in the mapping
/// that contains `address`, from /proc/self/smaps. 0 if that cannot be read.
[[nodiscard]] std::size_t huge_bytes_at(const void* address);

/// Returns why this machine gives private memory no transparent huge pages; empty if it does.
[[nodiscard]] std::string why_no_huge_pages();

/// Returns the number of free pages (of bytes_of_huge_page) in the machine's pool.
[[nodiscard]] std::size_t free_pool_pages();

} // namespace farcall::tool
