#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>

#include <algorithm>

namespace farcall {
namespace {

/// For rings whose other side polls without being notified.
constexpr std::atomic<std::uint32_t> never_armed{0};

/// For senders of whom every commit has to be noticed.
constexpr std::atomic<std::uint32_t> every_commit{1};

/// For receivers that have given up: a ring without records, and where they say how far they are.
/// Nobody ever writes to the one, and nobody reads the other.
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
  // Acquire; partner: the release store in release().
  const std::uint64_t consumed = out.consumed->load(std::memory_order_acquire);
  FARCALL_RING_HOOK(reserve_after_look);
  // A receiver that claims to have read what was never sent, or to have un-read, is faulty: it
  // gets no more space, and the caller's deadline or the heartbeat timeout ends the wait.
  // The word behind a record is written too, hence one granule less than the ring has.
  const std::uint64_t most = out.size() - record_alignment;
  if (out.head - consumed > most) return nullptr;
  const std::uint64_t space = most - (out.head - consumed);
  if (pad + need > space) return nullptr;
  if (pad != 0) {
    // The receiver goes on at the start of the ring, which must read as "nothing yet" before the
    // pad sends it there.
    commit_at(out.base, 0).store(0, std::memory_order_relaxed);
    FARCALL_RING_HOOK(pad_after_terminator);
    commit_at(out.base, offset)
        .store(commit_word(static_cast<std::uint32_t>(pad), record_kind::pad),
               std::memory_order_release);
    out.head += pad;
  }
  const std::uint64_t to_end = out.size() - (out.head & out.mask);
  out.limit = out.head + std::min(to_end, space - pad);
  // The body may be written over the cleared word and then not be committed.
  out.cleared = out.mask;
  return out.base + (out.head & out.mask);
}

record_view peek_slow(inbox& in, std::uint32_t word) noexcept {
  const record_view corrupt{in.base, 0, record_kind::corrupt};
  if (word == commit_word(0, record_kind::lost)) return {in.base, 0, record_kind::lost};
  const std::uint64_t offset = in.tail & (in.size - 1);
  // A pad always reaches exactly to the end of the ring and is never the first record after a wrap.
  if (commit_kind(word) != record_kind::pad || commit_bytes(word) != in.size - offset ||
      offset == 0) {
    return corrupt;
  }
  release(in, {in.base + offset, commit_bytes(word), record_kind::pad});
  FARCALL_RING_HOOK(peek_after_pad);
  // No pad is taken there, so a peer cannot keep us here for ever.
  return peek(in);
}

} // namespace ring_detail

void refuse(outbox& out) noexcept {
  // The word at the head is the last terminator, so there always is space for it.
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
  // The word that the first poll finds. Relaxed: who hands the ring out orders it.
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
