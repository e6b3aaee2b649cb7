#pragma once

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

/// Copies of at least this size write past the caches (non-temporal stores).
///
/// A cached store first reads the line that it is going to overwrite: a third of the memory
/// traffic, once the destination does not fit the L2 cache. Against that, a destination that stays
/// in the last-level cache is cheaper to read for whoever uses it next. Measured, the copy itself
/// gains from 1.5 MiB (nobody else touched the destination) to 10 MiB (another core has just
/// written it); the copy plus one pass over all of it breaks even between 8 and 24 MiB. The switch
/// sits where nobody loses much; docs/decisions/0002-bulk-copy.md has the tables.
inline constexpr std::size_t non_temporal_from = std::size_t{8} << 20;

/// Size of the pieces that threads take from a copy_task. With two threads, 256 KiB to 1 MiB are
/// within 2 % of the best at every size; larger ones leave a thread idle at 2 to 8 MiB.
inline constexpr std::size_t copy_chunk_bytes = std::size_t{512} << 10;

/// Copies past the caches whatever the size. For pieces of a copy that is large as a whole; for a
/// single small copy it is slower than copy_bytes.
void copy_bytes_streaming(void* to, const void* from, std::size_t bytes) noexcept;

/// One way to do it.
struct streaming_copy {
  const char* name; ///< of the instruction set: "avx512", "avx", "sse2" or "memcpy"
  void (*copy)(void* to, const void* from, std::size_t bytes) noexcept;
};

/// Those that this processor can run, the best one first; never empty. copy_bytes_streaming uses
/// the first, the others are for tests and benchmarks.
[[nodiscard]] std::span<const streaming_copy> streaming_copies() noexcept;

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
    if (bytes < non_temporal_from) [[likely]]
      std::memcpy(to, from, bytes);
    else
      copy_bytes_streaming(to, from, bytes);
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

/// A large copy, cut into chunks that several threads work on.
///
/// Give every helper the address of the task through something with release/acquire order (a queue,
/// a thread start), let each call work() until it says false, and wait until finished(). The task
/// must stay alive until the last helper has returned from work(); finished() alone is not enough,
/// because a helper may just be asking for its next chunk. Memory stays the caller's.
class copy_task {
public:
  copy_task(void* to, const void* from, std::size_t bytes,
            std::size_t chunk_bytes = copy_chunk_bytes) noexcept;
  copy_task(const copy_task&) = delete;
  copy_task& operator=(const copy_task&) = delete;
  ~copy_task() = default;

  /// Takes one chunk and copies it. False when none was left to take (others may still be copying).
  /// Never waits.
  bool work() noexcept;

  /// True when every chunk has arrived; the caller then sees all the bytes. Never waits.
  [[nodiscard]] bool finished() const noexcept {
    // Acquire: partner of the release increments in work(), which form one release sequence, so
    // seeing the last one means seeing the bytes of all.
    return done_.load(std::memory_order_acquire) == chunks_;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_; }

private:
  unsigned char* to_;
  const unsigned char* from_;
  std::size_t bytes_;
  std::size_t chunk_bytes_;
  std::size_t chunks_;
  // Relaxed everywhere: it only hands out numbers; the fields above reached the helper together
  // with the task's address.
  std::atomic<std::size_t> next_{0};
  // Release in work(), acquire in finished().
  std::atomic<std::size_t> done_{0};
};

} // namespace farcall
