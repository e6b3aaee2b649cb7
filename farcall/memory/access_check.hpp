// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {

/// Finds out, without a fault, if this process may read or write memory that another process has
/// named. The check is made before the CPU copies to or from this memory. An object serves one copy
/// and remembers the mapping that it has found last, so the program must not change the mappings of
/// this memory during the copy. Never blocks. One thread at a time may use an object.
class access_check {
 public:
  access_check() = default;
  access_check(const access_check&) = delete;
  access_check& operator=(const access_check&) = delete;
  ~access_check();

  [[nodiscard]] bool can_read(const void* at, std::size_t bytes) noexcept;
  /// Checks that memory can be written. The check may write the bytes that are already there once
  /// more. Other threads, of this process or of another one, must therefore not write to the memory
  /// during the check.
  [[nodiscard]] bool can_write(void* at, std::size_t bytes) noexcept;

  // ---- steps of can_read() and can_write(), public for tests ----

  /// Looks the memory up in the system's list of this process's mappings. Returns `unknown` if the
  /// system does not provide the list. Also returns `unknown` for memory of a file, because the
  /// file may be shorter than its mapping; huge pages of the pool are an exception.
  enum class reply : std::uint8_t { yes, no, unknown };
  [[nodiscard]] reply ask_list(std::uintptr_t at, std::size_t bytes, bool for_writing) noexcept;
  /// Tests the memory by accesses: makes the system read a byte of each page and, if `for_writing`,
  /// write the byte back. Returns false if an access fails.
  [[nodiscard]] bool try_pages(std::uintptr_t at, std::size_t bytes, bool for_writing) noexcept;

 private:
  /// A mapping of memory of no file, or of huge pages from the pool.
  struct mapping {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    bool is_readable = false;
    bool is_writable = false;
  };

  mapping known_;
  int scratch_ = -1; ///< memory file for try_pages()
};

} // namespace farcall
