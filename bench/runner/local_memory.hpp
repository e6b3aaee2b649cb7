#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace farcall::tool {

/// Small ones, transparent huge ones, or huge ones of the pool (hugetlb).
enum class pages { small, huge, hugetlb };

inline constexpr std::size_t bytes_of_huge_page = std::size_t{2} << 20;

/// Private memory of this process for the measurement of copies, aligned to a huge page and touched
/// when it is made. Except of the pool, what kind of pages it got is up to the kernel: ask
/// huge_bytes_at().
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

/// How many bytes of the mapping that contains `address` lie on huge pages, of whatever origin
/// (transparent, the pool, shared memory), as /proc/self/smaps says. 0 when that cannot be read.
[[nodiscard]] std::size_t huge_bytes_at(const void* address);

/// Why there would be no transparent huge pages for private memory on this machine; empty when
/// there would be.
[[nodiscard]] std::string why_no_huge_pages();

/// Pages of the machine's pool of huge pages (of bytes_of_huge_page) that are free.
[[nodiscard]] std::size_t free_pool_pages();

} // namespace farcall::tool
