// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/memory/record.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// A one-way ring of packed records between one sending and one receiving thread.
///
/// The sender fills a record in place and commits it with one release store of its first word; the
/// receiver polls that word. Before a commit, the sender writes zero to the word that follows the
/// record. The receiver therefore never has to write into the ring, and a line crosses once, from
/// the sender to the receiver. The word that follows the record may be the first one of the next
/// line. The sender has then usually written zero to it after the previous commit already.
/// Otherwise the commit would wait until the sender's core has that second line, because stores
/// become visible in order. The receiver publishes its position every quarter ring. A record has at
/// most a quarter of the ring, so that a full ring always drains.
///
/// The outbox caches the end of the free space, as in Rigtorp's SPSCQueue. The functions reserve,
/// commit, peek and release are modelled on liburing.
namespace farcall {

/// Hook for tests, which the ring calls between two steps of its protocol. It does nothing unless a
/// test defines FARCALL_RING_HOOK before it includes this file.
#ifndef FARCALL_RING_HOOK
#define FARCALL_RING_HOOK(window) ((void)0)
#endif

struct doorbell;

/// Sending end of a ring. Owned by one thread at a time. `base` is aligned to a line.
struct alignas(line_bytes) outbox {
  std::byte* base = nullptr;
  std::uint32_t mask = 0; ///< number of bytes of the ring, a power of two, minus one
  /// Offset of the line after the head's line, if the first word of that line has already been set
  /// to zero. Otherwise mask, which is the offset of no line.
  std::uint32_t cleared = 0;
  std::uint64_t head = 0;  ///< position where the next record starts, counted from the first byte
                           ///< ever sent
  std::uint64_t limit = 0; ///< end of the space that is known to be free
  const std::atomic<std::uint64_t>* consumed = nullptr; ///< position up to which the receiver has
                                                        ///< read; null if closed
  const std::atomic<std::uint32_t>* armed = nullptr; ///< word that is odd if a commit must notify
  void (*notify)(void* context) noexcept = nullptr;  ///< function that wakes or informs the other
                                                     ///< side
  void* notify_context = nullptr;

  [[nodiscard]] std::uint64_t size() const noexcept { return std::uint64_t{mask} + 1; }
};
static_assert(sizeof(outbox) == line_bytes);

/// Receiving end of a ring. Owned by one thread at a time.
struct alignas(line_bytes) inbox {
  std::byte* base = nullptr;
  std::uint32_t size = 0;      ///< bytes of the ring, a power of two
  std::uint32_t largest = 0;   ///< record_limit(size)
  std::uint64_t tail = 0;      ///< position of the next record to read
  std::uint64_t published = 0; ///< position up to which the sender knows that records were read
  std::atomic<std::uint64_t>* consumed = nullptr; ///< read by the sender
};
static_assert(sizeof(inbox) == line_bytes);

/// Size of the smallest ring. A quarter of this size still holds a useful record.
inline constexpr std::uint64_t min_ring = 4096;
/// Size of the largest ring. Larger rings have no use, because bulk data should not be sent through
/// a lane.
inline constexpr std::uint64_t max_ring = std::uint64_t{1} << 26;

/// Returns the size of the largest record of a ring of `size` bytes, a multiple of
/// record_alignment.
[[nodiscard]] constexpr std::uint32_t record_limit(std::uint64_t size) noexcept {
  constexpr std::uint64_t most = max_record / record_alignment * record_alignment;
  return static_cast<std::uint32_t>(size / 4 < most ? size / 4 : most);
}

/// True if the receiver sleeps or is about to sleep. A commit then makes a system call.
[[nodiscard]] inline bool is_armed(const outbox& out) noexcept {
  return (out.armed->load(std::memory_order_relaxed) & 1U) != 0;
}

namespace ring_detail {

inline std::atomic_ref<std::uint32_t> commit_at(std::byte* base, std::uint64_t offset) noexcept {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(base + offset));
}

/// Number of lines ahead of the head that are prefetched for writing. Getting a line back from the
/// receiver's cache takes as long as a message. With a prefetch, the waits for several lines
/// overlap.
inline constexpr std::uint64_t lines_ahead = 3;

inline void prefetch_for_write(const std::byte* line) noexcept {
#if defined(__x86_64__)
  // Use an instruction of its own, because without an option for newer processors the compiler's
  // builtin would only prefetch for reading.
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Returns the position of the line that follows the line that contains `position`.
[[nodiscard]] constexpr std::uint64_t line_behind(std::uint64_t position) noexcept {
  return (position & ~std::uint64_t{line_bytes - 1}) + line_bytes;
}

/// Prefetches lines for writing after a record that is longer than a line. The record has moved the
/// line after the head from `from` to `to`. Prefetches each of the `lines_ahead` lines after `to`
/// that was not among them before. Omits the last of them, which the caller prefetches.
inline void take_lines_ahead(const std::byte* base, std::uint64_t mask, std::uint64_t from,
                             std::uint64_t to) noexcept {
  const std::uint64_t lines = (to - from) / line_bytes;
  for (std::uint64_t n = 1; n < lines && n < lines_ahead; ++n)
    prefetch_for_write(base + ((to + (lines_ahead - n) * line_bytes) & mask));
}

/// Notifies the receiver, if it is armed. Called after a store that the receiver has to see.
inline void notify_if_armed(const outbox& out) noexcept {
  // Relaxed, because the sleeper's barrier orders this load after the preceding store
  // (doorbell.hpp). The signal fence keeps the compiler from changing their order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (is_armed(out)) [[unlikely]]
    out.notify(out.notify_context);
}

[[nodiscard]] std::byte* reserve_slow(outbox& out, std::uint64_t need) noexcept;
[[nodiscard]] record_view peek_slow(inbox& in, std::uint32_t word) noexcept;

} // namespace ring_detail

namespace ring_detail {

/// Copies of the outbox's fields, which the compiler can keep in registers. It cannot keep the
/// fields of the outbox there, because a store into the ring might change them.
struct sender {
  explicit sender(const outbox& out) noexcept
      : base(out.base), mask(out.mask), cleared(out.cleared), head(out.head), limit(out.limit) {}

  [[nodiscard]] bool has_space(std::uint64_t need) const noexcept { return need <= limit - head; }
  [[nodiscard]] std::byte* next() const noexcept { return base + (head & mask); }

  std::byte* base;
  std::uint64_t mask;
  std::uint32_t cleared;
  std::uint64_t head;
  std::uint64_t limit;
};

inline void commit(outbox& out, const sender& from, std::byte* record, std::uint32_t bytes,
                   record_kind kind) noexcept {
  const std::uint64_t next = from.head + align_up(std::uint64_t{bytes}, record_alignment);
  const auto next_offset = static_cast<std::uint32_t>(next & from.mask);
  if (next_offset != from.cleared) {
    // Relaxed, because the release store below, which is paired with the acquire load in peek(),
    // orders this store.
    commit_at(from.base, next_offset).store(0, std::memory_order_relaxed);
  }
  FARCALL_RING_HOOK(commit_after_terminator);
  out.head = next;
  // Release, paired with the acquire load in peek(), so that the receiver sees the whole record.
  commit_at(record, 0).store(commit_word(bytes, kind), std::memory_order_release);
  FARCALL_RING_HOOK(commit_before_notify);
  const std::uint64_t behind = line_behind(next);
  const auto behind_offset = static_cast<std::uint32_t>(behind & from.mask);
  if (behind_offset != from.cleared) {
    // Prefetch the line that is `lines_ahead` lines after `behind`. A record that is no longer than
    // a line moves the head by at most one line, so that all nearer lines are prefetched already.
    // After a longer record, prefetch the lines between as well.
    prefetch_for_write(from.base + ((behind + lines_ahead * line_bytes) & from.mask));
    if (bytes > line_bytes) [[unlikely]]
      take_lines_ahead(from.base, from.mask, line_behind(from.head), behind);
    if (behind - next <= from.limit - next) [[likely]] {
      commit_at(from.base, behind_offset).store(0, std::memory_order_relaxed);
      out.cleared = behind_offset;
    } else {
      out.cleared = out.mask;
    }
  }
  notify_if_armed(out);
}

} // namespace ring_detail

/// Returns space for a record of `bytes` (header included, at most record_limit), or null if the
/// ring is currently full. Never waits. The receiver cannot see the record before commit(). A
/// reservation that is not committed is replaced by the next one.
[[nodiscard]] inline std::byte* try_reserve(outbox& out, std::uint32_t bytes) noexcept {
  const std::uint64_t need = align_up(std::uint64_t{bytes}, record_alignment);
  const ring_detail::sender from(out);
  if (from.has_space(need)) [[likely]] {
    // Forget the cleared word if the body of the record may overwrite it, because the record may
    // never be committed.
    if ((from.head & from.mask) + need > from.cleared) out.cleared = out.mask;
    return from.next();
  }
  return ring_detail::reserve_slow(out, need);
}

/// Makes the record that try_reserve() returned last visible to the receiver, by one release store.
/// The caller must have written the slot word and the body of the record. Also notifies the
/// receiver if its doorbell is armed, or calls the hook of notify_on_commit().
inline void commit(outbox& out, std::byte* record, std::uint32_t bytes, record_kind kind) noexcept {
  ring_detail::commit(out, ring_detail::sender(out), record, bytes, kind);
}

/// Reserves and commits a record of `bytes` at less cost than try_reserve() and commit(). `fill`
/// writes all of the record except its first word, and cannot fail. Returns false if the free space
/// that the outbox remembers is too small. The caller then calls try_reserve(), which reads the
/// receiver's current position.
template <class Fill>
[[nodiscard]] inline bool try_send(outbox& out, std::uint32_t bytes, record_kind kind,
                                   const Fill& fill) noexcept {
  const ring_detail::sender from(out);
  if (!from.has_space(align_up(std::uint64_t{bytes}, record_alignment))) [[unlikely]]
    return false;
  std::byte* const record = from.next();
  fill(record);
  ring_detail::commit(out, from, record, bytes, kind);
  return true;
}

/// Returns the next record, or an empty view if there is none. Never waits. A view of kind
/// `corrupt` means that the bytes in the ring form no record. The peer is then faulty, and nothing
/// more can be read from the ring. Always inline, because wait loops call this function in each
/// iteration.
[[nodiscard]] [[gnu::always_inline]] inline record_view peek(inbox& in) noexcept {
  const std::uint64_t offset = in.tail & (in.size - 1);
  // Acquire, paired with the release store in commit(), so that the whole record is visible.
  const std::uint32_t word =
      ring_detail::commit_at(in.base, offset).load(std::memory_order_acquire);
  if (word == 0) return {};
  const std::uint32_t bytes = commit_bytes(word);
  const record_kind kind = commit_kind(word);
  if (kind > record_kind::pad && kind != record_kind::corrupt && bytes >= sizeof(record_header) &&
      bytes <= in.largest && offset + bytes <= in.size) [[likely]] {
    return {in.base + offset, bytes, kind};
  }
  return ring_detail::peek_slow(in, word);
}

/// True if peek() would return a record. Any thread may call this, without owning the inbox.
[[nodiscard]] inline bool has_record(const inbox& in, std::uint64_t tail) noexcept {
  return ring_detail::commit_at(in.base, tail & (in.size - 1)).load(std::memory_order_relaxed) != 0;
}

/// Gives back the space of the record that peek() returned last, which has `bytes` bytes. The view
/// of this record is invalid afterwards.
inline void release(inbox& in, std::uint32_t bytes) noexcept {
  in.tail += align_up(std::uint64_t{bytes}, record_alignment);
  if (in.tail - in.published >= in.size / 4) {
    in.published = in.tail;
    // Release, paired with the acquire load in reserve_slow(), so that the sender overwrites the
    // records only after this thread has read them.
    in.consumed->store(in.tail, std::memory_order_release);
  }
}

inline void release(inbox& in, const record_view& record) noexcept { release(in, record.bytes); }

/// Takes up to `most` records of one kind of message, at less cost than peek() and release(). Calls
/// `take` with the address and length of each record, and gives back the record's space. Stops at a
/// record of another kind, with a wrong length, or for which `take` returns false; this record
/// remains in the ring for peek(). Also stops if there is no further record. Returns the number of
/// records that were taken.
template <class Take>
inline std::size_t receive_each(inbox& in, record_kind kind, std::size_t most,
                                const Take& take) noexcept {
  // Copy the fields to local variables, so that the compiler can keep them in registers.
  std::byte* const base = in.base;
  const std::uint64_t size = in.size;
  const std::uint64_t max_body = in.largest - sizeof(record_header);
  std::uint64_t tail = in.tail;
  std::uint64_t publish_at = in.published + size / 4;
  std::size_t left = most;
  for (; left != 0; --left) {
    const std::uint64_t offset = tail & (size - 1);
    // Acquire, paired with the release store in commit(), so that the whole record is visible.
    const std::uint32_t word = ring_detail::commit_at(base, offset).load(std::memory_order_acquire);
    if (commit_kind(word) != kind) break;
    const std::uint64_t bytes = commit_bytes(word);
    if (bytes - sizeof(record_header) > max_body || offset + bytes > size) [[unlikely]] {
      break;
    }
    if (!take(base + offset, static_cast<std::uint32_t>(bytes))) [[unlikely]]
      break;
    tail += align_up(bytes, record_alignment);
    if (tail >= publish_at) {
      publish_at = tail + size / 4;
      in.published = tail;
      // Release, paired with the acquire load in reserve_slow(), as in release().
      in.consumed->store(tail, std::memory_order_release);
    }
  }
  in.tail = tail;
  return most - left;
}

/// Moves the inbox past all committed records, pads included. Used by a thread that sends the bytes
/// of the ring over a connection. Does not check the lengths of the records, because a thread of
/// this process has committed them. Returns the word at which it stops, which is 0 or the mark of
/// refuse().
inline std::uint32_t skip_committed(inbox& in) noexcept {
  for (;;) {
    // Acquire, paired with the release store in commit(), so that the whole record is visible.
    const std::uint32_t word =
        ring_detail::commit_at(in.base, in.tail & (in.size - 1)).load(std::memory_order_acquire);
    if (word == 0 || commit_kind(word) == record_kind::corrupt) return word;
    in.tail += align_up(std::uint64_t{commit_bytes(word)}, record_alignment);
  }
}

/// Tells the receiver that the sender has given up. Puts a mark after the committed records, for
/// which peek() of the receiver returns `corrupt`. The sender must commit nothing afterwards.
void refuse(outbox& out) noexcept;

/// Closes the sending end, so that no reservation finds space any more. The receiver is not told.
void close(outbox& out) noexcept;
/// Closes the receiving end, so that it finds no record and does not read the ring any more. The
/// sender is not told.
void close(inbox& in) noexcept;

/// Makes each commit wake the threads that sleep on `wakes`.
void notify_on_commit(outbox& out, doorbell& wakes) noexcept;
/// Makes each commit call `hook`.
void notify_on_commit(outbox& out, void (*hook)(void* context) noexcept, void* context) noexcept;

/// Makes a used ring read as empty again.
void clear_ring(std::byte* base) noexcept;

/// Initialises the two ends over fresh, zeroed ring memory of `size` bytes.
void attach(outbox& out, std::byte* base, std::uint64_t size,
            const std::atomic<std::uint64_t>& consumed) noexcept;
void attach(inbox& in, std::byte* base, std::uint64_t size,
            std::atomic<std::uint64_t>& consumed) noexcept;

} // namespace farcall
