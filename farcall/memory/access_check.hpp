#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall {

/// Whether memory that somebody else has named may be read or written by this process, found out
/// without a fault: before a processor copies from it or to it. Remembers what it has found, so one
/// of them is for one copy, during which the program leaves its mappings there alone. Never blocks.
/// One thread at a time.
class access_check {
 public:
  access_check() = default;
  access_check(const access_check&) = delete;
  access_check& operator=(const access_check&) = delete;
  ~access_check();

  [[nodiscard]] bool can_read(const void* at, std::size_t bytes) noexcept;
  /// May write again what is there, so nobody else may be writing.
  [[nodiscard]] bool can_write(void* at, std::size_t bytes) noexcept;

  // ---- for those, and tests ----

  /// What the system's list of mappings says: no more than that of memory in a file, which may be
  /// shorter than its mapping.
  enum class answer : std::uint8_t { yes, no, unknown };
  [[nodiscard]] answer ask_list(std::uintptr_t at, std::size_t bytes, bool for_writing) noexcept;
  /// Has the system read a byte of each page, and write it back if that is asked for.
  [[nodiscard]] bool try_pages(std::uintptr_t at, std::size_t bytes, bool for_writing) noexcept;

 private:
  /// A mapping that is no file's, or of huge pages of the pool.
  struct mapping {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    bool is_readable = false;
    bool is_writable = false;
  };

  mapping known_;
  int scratch_ = -1; ///< descriptor of memory for try_pages()
};

} // namespace farcall
