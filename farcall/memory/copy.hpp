// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Copies between memory that is mapped in this process. Only this file decides how the bytes are
/// moved.
///
/// The following holds for all functions of this file: source and destination must not overlap. Any
/// alignment is allowed, and null pointers are allowed if the size is 0. The copied bytes are
/// ordered before a later release operation of the same thread. Any thread may call the functions.
namespace farcall {

class copy_choice;

/// Copies of at least this size use the kernel that is the fastest on this machine (copy_choice),
/// which mostly writes past the caches.
///
/// A cached store first reads the line that it is going to overwrite. This read is a third of the
/// memory traffic, once the destination does not fit the L2 cache. On the other hand, a destination
/// that stays in the last-level cache is cheaper for its next reader. According to measurements,
/// bypassing the caches makes the copy itself faster from 1.5 MiB on if other cores have not
/// touched the destination, and from 16 MiB on if another core has just written it. If the
/// destination is read once after the copy, the copy and this reading together become faster from a
/// size between 8 and 32 MiB on. docs/decisions/0002-bulk-copy.md has the tables.
inline constexpr std::size_t large_copy_from = std::size_t{8} << 20;

/// Size of the pieces in which several threads share a large copy. With much smaller pieces, copies
/// from 8 MiB on lose a tenth of their speed. With larger pieces, a copy of 2 MiB has too few
/// pieces to occupy all threads. docs/decisions/0002-bulk-copy.md has the measurements.
inline constexpr std::size_t copy_chunk_bytes = std::size_t{512} << 10;

/// Copies a piece of a large copy. The piece may have any size. Slower than copy_bytes if the whole
/// copy is small.
void copy_large(void* to, const void* from, std::size_t bytes) noexcept;

/// Returns the choice that copy_large() uses in this process.
[[nodiscard]] const copy_choice& large_copies() noexcept;

#if defined(__GNUC__) && !defined(__clang__)
// Disable a warning of g++ about branches that are never taken. It appears if the copied object is
// smaller than 16 bytes, and the size is known only at run time.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
#endif

/// Copies `bytes` bytes at the best rate that one thread can reach for this size.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 16) {
    if (bytes < large_copy_from) [[likely]]
      std::memcpy(to, from, bytes);
    else
      copy_large(to, from, bytes);
    return;
  }
  // Make two loads that may overlap, and then two stores, because this takes no loop, no call, and
  // only two branches, which are predictable.
  auto* const target = static_cast<unsigned char*>(to);
  const auto* const source = static_cast<const unsigned char*>(from);
  const auto ends = [&]<class Word>(Word first, Word last) {
    std::memcpy(&first, source, sizeof(Word));
    std::memcpy(&last, source + bytes - sizeof(Word), sizeof(Word));
    std::memcpy(target, &first, sizeof(Word));
    std::memcpy(target + bytes - sizeof(Word), &last, sizeof(Word));
  };
  if (bytes >= 8)
    ends(std::uint64_t{}, std::uint64_t{});
  else if (bytes >= 4)
    ends(std::uint32_t{}, std::uint32_t{});
  else if (bytes >= 2)
    ends(std::uint16_t{}, std::uint16_t{});
  else if (bytes == 1)
    *target = *source;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// Copies between memory of this process and an address that another process has named. Returns
/// false if some of the memory is not mapped, or may not be read or written. In this case, a part
/// of the bytes may have been copied.
[[nodiscard]] bool copy_if_mapped(void* to, const void* from, std::size_t bytes) noexcept;

/// True if all of the memory is mapped, whatever its protection is.
[[nodiscard]] bool is_mapped(const void* address, std::size_t bytes) noexcept;

} // namespace farcall
