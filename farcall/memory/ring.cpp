// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>

#include <algorithm>

namespace farcall {
namespace {

/// Word for rings whose receiver polls all the time. It is never odd, so that no commit notifies.
constexpr std::atomic<std::uint32_t> never_armed{0};

/// Word for senders whose hook every commit must call. It is always odd, so that every commit
/// notifies.
constexpr std::atomic<std::uint32_t> every_commit{1};

/// Empty ring and read position to which close() points an inbox. The inbox then finds no record,
/// and touches no memory of the peer. Only closed inboxes use them.
alignas(line_bytes) constinit std::byte empty_ring[line_bytes]{};
constinit std::atomic<std::uint64_t> unread_position{0};

void notify_nobody(void* /*context*/) noexcept {}

void notify_doorbell(void* context) noexcept { notify(*static_cast<doorbell*>(context)); }

} // namespace

namespace ring_detail {

std::byte* reserve_slow(outbox& out, std::uint64_t need) noexcept {
  if (need > record_limit(out.size()) || out.consumed == nullptr) return nullptr; // closed
  const std::uint64_t offset = out.head & out.mask;
  const std::uint64_t pad = offset + need <= out.size() ? 0 : out.size() - offset;
  // Acquire, paired with the release store in release(), so that the receiver has read the records
  // whose space is used again.
  const std::uint64_t consumed = out.consumed->load(std::memory_order_acquire);
  FARCALL_RING_HOOK(reserve_after_look);
  // A position ahead of the sender, or more than a ring behind it, means that the receiver is
  // faulty. The sender then finds no more space, and the caller's wait ends by its deadline or by
  // the heartbeat timeout. The usable space is one granule less than the ring, because the word
  // that follows the last record is also written.
  const std::uint64_t most = out.size() - record_alignment;
  if (out.head - consumed > most) return nullptr;
  const std::uint64_t space = most - (out.head - consumed);
  if (pad + need > space) return nullptr;
  if (pad != 0) {
    // The pad sends the receiver to the start of the ring. Clear the word there before the pad is
    // committed, so that the receiver finds no old record.
    commit_at(out.base, 0).store(0, std::memory_order_relaxed);
    FARCALL_RING_HOOK(pad_after_terminator);
    commit_at(out.base, offset)
        .store(commit_word(static_cast<std::uint32_t>(pad), record_kind::pad),
               std::memory_order_release);
    out.head += pad;
  }
  const std::uint64_t to_end = out.size() - (out.head & out.mask);
  out.limit = out.head + std::min(to_end, space - pad);
  // Forget which word was cleared in advance, because the body of the reserved record may overwrite
  // this word. The next record must not rely on the word if this record is never committed.
  out.cleared = out.mask;
  return out.base + (out.head & out.mask);
}

record_view peek_slow(inbox& in, std::uint32_t word) noexcept {
  const record_view corrupt{in.base, 0, record_kind::corrupt};
  if (word == commit_word(0, record_kind::lost)) return {in.base, 0, record_kind::lost};
  const std::uint64_t offset = in.tail & (in.size - 1);
  // Accept only a pad that ends exactly at the end of the ring and does not start at the ring's
  // start, because a correct sender writes no other pad.
  if (commit_kind(word) != record_kind::pad || commit_bytes(word) != in.size - offset ||
      offset == 0) {
    return corrupt;
  }
  release(in, {in.base + offset, commit_bytes(word), record_kind::pad});
  FARCALL_RING_HOOK(peek_after_pad);
  // This recurses only once, because no pad is accepted at the start of the ring, whatever the peer
  // writes.
  return peek(in);
}

} // namespace ring_detail

void refuse(outbox& out) noexcept {
  // Store the mark over the zero word that ends the committed records. This word is at the head,
  // and exists even if the ring is full.
  ring_detail::commit_at(out.base, out.head & out.mask)
      .store(commit_word(0, record_kind::corrupt), std::memory_order_release);
  ring_detail::notify_if_armed(out);
}

void close(outbox& out) noexcept {
  out.limit = out.head;
  out.consumed = nullptr;
}

void close(inbox& in) noexcept { attach(in, empty_ring, sizeof empty_ring, unread_position); }

void notify_on_commit(outbox& out, doorbell& wakes) noexcept {
  out.armed = &wakes.word;
  out.notify = &notify_doorbell;
  out.notify_context = &wakes;
}

void notify_on_commit(outbox& out, void (*hook)(void* context) noexcept, void* context) noexcept {
  out.armed = &every_commit;
  out.notify = hook;
  out.notify_context = context;
}

void clear_ring(std::byte* base) noexcept {
  // Clear the word that the first poll reads. Relaxed, because handing the ring to another thread
  // orders the store.
  ring_detail::commit_at(base, 0).store(0, std::memory_order_relaxed);
}

void attach(outbox& out, std::byte* base, std::uint64_t size,
            const std::atomic<std::uint64_t>& consumed) noexcept {
  out = outbox{};
  out.base = base;
  out.mask = static_cast<std::uint32_t>(size - 1);
  out.cleared = out.mask;
  out.limit = size - record_alignment;
  out.consumed = &consumed;
  out.armed = &never_armed;
  out.notify = &notify_nobody;
}

void attach(inbox& in, std::byte* base, std::uint64_t size,
            std::atomic<std::uint64_t>& consumed) noexcept {
  in = inbox{};
  in.base = base;
  in.size = static_cast<std::uint32_t>(size);
  in.largest = record_limit(size);
  in.consumed = &consumed;
}

} // namespace farcall
