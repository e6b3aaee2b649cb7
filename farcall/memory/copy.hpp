#pragma once

#include <farcall/base/language.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Copies between mapped memory: the one place that decides how bytes move inside this process.
///
/// All functions here: source and destination must not overlap, any alignment is fine, null
/// pointers are fine when the size is 0, and the copied bytes are ordered before a later release
/// operation of the same thread. They can be called from any thread.
namespace farcall {

class copy_choice;

/// Copies of at least this size are made in the way that is the fastest here (copy_choice), which
/// mostly writes past the caches.
///
/// A cached store first reads the line that it is going to overwrite: a third of the memory
/// traffic, once the destination does not fit the L2 cache. Against that, a destination that stays
/// in the last-level cache is cheaper to read for whoever uses it next. Measured, the copy itself
/// gains from 1.5 MiB (nobody else touched the destination) to 16 MiB (another core has just
/// written it); the copy plus one pass over all of it breaks even between 8 and 32 MiB.
/// docs/decisions/0002-bulk-copy.md has the tables.
inline constexpr std::size_t large_copy_from = std::size_t{8} << 20;

/// Size of the pieces in which several threads share a large copy. Much smaller ones lose a tenth
/// from 8 MiB on, larger ones leave a thread idle at 2 MiB; see the same document.
inline constexpr std::size_t copy_chunk_bytes = std::size_t{512} << 10;

/// For pieces of a copy that is large as a whole, whatever their size; slower than copy_bytes for a
/// small copy.
void copy_large(void* to, const void* from, std::size_t bytes) noexcept;

/// The choice that copy_large() makes in this process.
[[nodiscard]] const copy_choice& large_copies() noexcept;

#if defined(__GNUC__) && !defined(__clang__)
// With an object smaller than 16 bytes and a size known only at run time, g++ warns about the
// branches that this object can never take.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
#endif

/// Copies `bytes` bytes, at the best rate one thread can reach for this size.
inline void copy_bytes(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes > 16) {
    if (bytes < large_copy_from) [[likely]]
      std::memcpy(to, from, bytes);
    else
      copy_large(to, from, bytes);
    return;
  }
  // Two loads that may overlap, then two stores: no loop, no call, two predictable branches.
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

/// Copies between an address that somebody else has named and memory of ours. False, after a part
/// of it perhaps, where there is no such memory, or it must not be read or written.
[[nodiscard]] bool copy_if_mapped(void* to, const void* from, std::size_t bytes) noexcept;

/// True when all of it is mapped, whatever may be done to it.
[[nodiscard]] bool is_mapped(const void* address, std::size_t bytes) noexcept;

} // namespace farcall
