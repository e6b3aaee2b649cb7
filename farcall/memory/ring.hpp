#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/memory/record.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// A one-way ring of packed records between one sending and one receiving thread.
///
/// The sender fills a record in place and commits it with one release store of its first word; the
/// receiver polls that word. Before a commit the sender writes zero to the word that follows the
/// record, so the receiver never has to write into the ring: a line crosses once, from the sender
/// to the receiver. Where that word starts a line, it was written after the commit before: stores
/// become visible in order, and a commit must not wait for a second line. The receiver publishes
/// how far it has read every quarter ring, so a record is at most a quarter of the ring and a full
/// ring always drains.
///
/// The cached limit on the sender's side is Rigtorp's (SPSCQueue); reserve/commit/peek/release is
/// the shape of liburing.
namespace farcall {

/// Test hook: called inside windows between two steps of the protocol. Compiled to nothing unless a
/// test defines FARCALL_RING_HOOK before including this file.
#ifndef FARCALL_RING_HOOK
#define FARCALL_RING_HOOK(window) ((void)0)
#endif

struct doorbell;

/// Sending end. Owned by one thread at a time. `base` is aligned to a line.
struct alignas(line_bytes) outbox {
  std::byte* base = nullptr;
  std::uint32_t mask = 0; ///< bytes of the ring, a power of two, less one
  std::uint32_t cleared =
      0; ///< offset of the line behind head's if its first word reads zero, or mask
  std::uint64_t head = 0;  ///< position where the next record starts, counted from the beginning
  std::uint64_t limit = 0; ///< records may end here, at the latest, before anybody looks further
  const std::atomic<std::uint64_t>* consumed = nullptr; ///< written by the receiver; null: closed
  const std::atomic<std::uint32_t>* armed = nullptr;    ///< odd: notify after a commit
  void (*notify)(void* context) noexcept = nullptr;     ///< wakes or informs the other side
  void* notify_context = nullptr;

  [[nodiscard]] std::uint64_t size() const noexcept { return std::uint64_t{mask} + 1; }
};
static_assert(sizeof(outbox) == line_bytes);

/// Receiving end. Owned by one thread at a time.
struct alignas(line_bytes) inbox {
  std::byte* base = nullptr;
  std::uint32_t size = 0;                         ///< bytes, a power of two
  std::uint32_t largest = 0;                      ///< record_limit(size)
  std::uint64_t tail = 0;                         ///< position of the next record to read
  std::uint64_t published = 0;                    ///< what the sender was last told
  std::atomic<std::uint64_t>* consumed = nullptr; ///< read by the sender
};
static_assert(sizeof(inbox) == line_bytes);

/// Rings are at least this long, so that a quarter holds a useful record.
inline constexpr std::uint64_t smallest_ring = 4096;
/// And at most this long: a lane is no place for bulk data.
inline constexpr std::uint64_t largest_ring = std::uint64_t{1} << 26;

/// Largest record for a ring of `size` bytes; a multiple of record_alignment.
[[nodiscard]] constexpr std::uint32_t record_limit(std::uint64_t size) noexcept {
  constexpr std::uint64_t most = largest_record / record_alignment * record_alignment;
  return static_cast<std::uint32_t>(size / 4 < most ? size / 4 : most);
}

/// Whether the receiver sleeps, or is about to: a commit takes a system call then.
[[nodiscard]] inline bool is_armed(const outbox& out) noexcept {
  return (out.armed->load(std::memory_order_relaxed) & 1U) != 0;
}

namespace ring_detail {

inline std::atomic_ref<std::uint32_t> commit_at(std::byte* base, std::uint64_t offset) noexcept {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(base + offset));
}

/// How many lines ahead of the head are prefetched for writing. Getting a line back from the
/// receiver's cache costs as much as a message; done ahead of time, these waits overlap.
inline constexpr std::uint64_t lines_ahead = 3;

inline void prefetch_for_write(const std::byte* line) noexcept {
#if defined(__x86_64__)
  // The builtin would only ask for a readable copy unless the compiler is told of a newer
  // processor.
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Position of the line behind the one that `position` lies in.
[[nodiscard]] constexpr std::uint64_t line_behind(std::uint64_t position) noexcept {
  return (position & ~std::uint64_t{line_bytes - 1}) + line_bytes;
}

/// The line behind the head has moved from `from` on to `to`: prefetches, for writing, the lines
/// that are now among the next `lines_ahead`, but for the last one.
inline void take_lines_ahead(const std::byte* base, std::uint64_t mask, std::uint64_t from,
                             std::uint64_t to) noexcept {
  const std::uint64_t lines = (to - from) / line_bytes;
  for (std::uint64_t n = 1; n < lines && n < lines_ahead; ++n)
    prefetch_for_write(base + ((to + (lines_ahead - n) * line_bytes) & mask));
}

/// After a store that the receiver has to see.
inline void notify_if_armed(const outbox& out) noexcept {
  // Relaxed: the sleeper orders itself against us (doorbell.hpp), as long as the compiler keeps the
  // order of our store and this load.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (is_armed(out)) [[unlikely]]
    out.notify(out.notify_context);
}

[[nodiscard]] std::byte* reserve_slow(outbox& out, std::uint64_t need) noexcept;
[[nodiscard]] record_view peek_slow(inbox& in, std::uint32_t word) noexcept;

} // namespace ring_detail

namespace ring_detail {

/// What a sender works with, in copies: the compiler takes stores into the ring for ones to the
/// outbox.
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
    // Relaxed: ordered before the release store below, whose acquire partner is in peek().
    commit_at(from.base, next_offset).store(0, std::memory_order_relaxed);
  }
  FARCALL_RING_HOOK(commit_after_terminator);
  out.head = next;
  // Release; partner: the acquire load in peek().
  commit_at(record, 0).store(commit_word(bytes, kind), std::memory_order_release);
  FARCALL_RING_HOOK(commit_before_notify);
  const std::uint64_t behind = line_behind(next);
  const auto behind_offset = static_cast<std::uint32_t>(behind & from.mask);
  if (behind_offset != from.cleared) {
    // A line ahead of the others at most, where the record is no longer than one.
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

/// Space for a record of `bytes` (header included, at most record_limit), or null when the ring is
/// full now. Never waits. Nothing is visible to the receiver before commit(); a reservation that is
/// not committed is simply made again.
[[nodiscard]] inline std::byte* try_reserve(outbox& out, std::uint32_t bytes) noexcept {
  const std::uint64_t need = align_up(std::uint64_t{bytes}, record_alignment);
  const ring_detail::sender from(out);
  if (from.has_space(need)) [[likely]] {
    // The body may be written over the cleared word and then not be committed.
    if ((from.head & from.mask) + need > from.cleared) out.cleared = out.mask;
    return from.next();
  }
  return ring_detail::reserve_slow(out, need);
}

/// Makes the record at `record`, the last one reserved, visible: one release store, then a
/// notification if the other side asked for one. The slot word and the body must have been written.
inline void commit(outbox& out, std::byte* record, std::uint32_t bytes, record_kind kind) noexcept {
  ring_detail::commit(out, ring_detail::sender(out), record, bytes, kind);
}

/// Sends a record of `bytes` that `fill`, which cannot fail, writes but for its first word. The
/// same as reserving and committing it at less cost; false when there may be no space without
/// looking further, which try_reserve() does.
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

/// The next record, or an empty view. Never waits. A view of kind `corrupt` means that the bytes
/// there are no record: the peer is faulty and nothing more can be read from it.
[[nodiscard]] inline record_view peek(inbox& in) noexcept {
  const std::uint64_t offset = in.tail & (in.size - 1);
  // Acquire; partner: the release store in commit().
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

/// True when peek() would return something. Takes no ownership: any thread may look.
[[nodiscard]] inline bool has_record(const inbox& in, std::uint64_t tail) noexcept {
  return ring_detail::commit_at(in.base, tail & (in.size - 1)).load(std::memory_order_relaxed) != 0;
}

/// Gives the space of the record last peeked, which has `bytes`, back. Its view is invalid
/// afterwards.
inline void release(inbox& in, std::uint32_t bytes) noexcept {
  in.tail += align_up(std::uint64_t{bytes}, record_alignment);
  if (in.tail - in.published >= in.size / 4) {
    in.published = in.tail;
    // Release: our reads of the records happen before the sender overwrites them. Partner: the
    // acquire load in reserve_slow().
    in.consumed->store(in.tail, std::memory_order_release);
  }
}

inline void release(inbox& in, const record_view& record) noexcept { release(in, record.bytes); }

/// Takes the next records, `most` at most, as long as they are of that kind, a message's: calls
/// `take` with the address and length of each, and gives its space back; false from `take` leaves
/// that record, and ends it. Returns how many. The same as peeking and releasing at less cost; what
/// stops it peek() finds.
template <class Take>
inline std::size_t receive_each(inbox& in, record_kind kind, std::size_t most,
                                const Take& take) noexcept {
  // Copies, as in a sender.
  std::byte* const base = in.base;
  const std::uint64_t size = in.size;
  const std::uint64_t most_body = in.largest - sizeof(record_header);
  std::uint64_t tail = in.tail;
  std::uint64_t publish_at = in.published + size / 4;
  std::size_t left = most;
  for (; left != 0; --left) {
    const std::uint64_t offset = tail & (size - 1);
    // Acquire; partner: the release store in commit().
    const std::uint32_t word = ring_detail::commit_at(base, offset).load(std::memory_order_acquire);
    if (commit_kind(word) != kind) break;
    const std::uint64_t bytes = commit_bytes(word);
    if (bytes - sizeof(record_header) > most_body || offset + bytes > size) [[unlikely]] {
      break;
    }
    if (!take(base + offset, static_cast<std::uint32_t>(bytes))) [[unlikely]]
      break;
    tail += align_up(bytes, record_alignment);
    if (tail >= publish_at) {
      publish_at = tail + size / 4;
      in.published = tail;
      // Release; partner: as in release().
      in.consumed->store(tail, std::memory_order_release);
    }
  }
  in.tail = tail;
  return most - left;
}

/// Passes over what is committed, pads included, without checking their lengths: for a thread that
/// sends the ring's bytes on, whose committer is in this process. Returns the word where it stops:
/// 0, or the mark of refuse().
inline std::uint32_t skip_committed(inbox& in) noexcept {
  for (;;) {
    // Acquire; partner: the release store in commit().
    const std::uint32_t word =
        ring_detail::commit_at(in.base, in.tail & (in.size - 1)).load(std::memory_order_acquire);
    if (word == 0 || commit_kind(word) == record_kind::corrupt) return word;
    in.tail += align_up(std::uint64_t{commit_bytes(word)}, record_alignment);
  }
}

/// Tells the receiver that nothing sensible will follow: its next peek() finds `corrupt`. For a
/// sender that must give up; it must not commit afterwards.
void refuse(outbox& out) noexcept;

/// The sender gives up: no reservation finds space from now on. The receiver is not told.
void close(outbox& out) noexcept;
/// The receiver gives up: there is no record from now on. The sender is not told, and its ring is
/// not looked at any more.
void close(inbox& in) noexcept;

/// A thread that sleeps on `wakes` is woken after a commit.
void notify_on_commit(outbox& out, doorbell& wakes) noexcept;
/// `hook` is called after every commit.
void notify_on_commit(outbox& out, void (*hook)(void* context) noexcept, void* context) noexcept;

/// Makes the memory of a ring that has been in use read as empty again.
void clear_ring(std::byte* base) noexcept;

/// Ends over fresh, zeroed ring memory of `size` bytes.
void attach(outbox& out, std::byte* base, std::uint64_t size,
            const std::atomic<std::uint64_t>& consumed) noexcept;
void attach(inbox& in, std::byte* base, std::uint64_t size,
            std::atomic<std::uint64_t>& consumed) noexcept;

} // namespace farcall
