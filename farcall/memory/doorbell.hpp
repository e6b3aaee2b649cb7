#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/base/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

/// How a thread sleeps until a message comes, so that the sleeper pays and not the sender.
///
/// The sleeper arms its doorbell, makes every core pass a barrier (membarrier), polls its rings
/// once more and then sleeps on the doorbell's word. The sender commits and reads the word with a
/// plain load. Either the sender sees that the doorbell is armed, or the sleeper's second poll sees
/// the message.
///
/// The word also counts notifications, so that one between the second poll and the sleep is noticed
/// even if another thread has armed the doorbell again (an event count).
namespace farcall {

/// The flag in a doorbell's word: somebody sleeps, or slept and was not notified since. The bits
/// above it count notifications.
inline constexpr std::uint32_t armed_flag = 1;

/// A word to sleep on. Lies in memory shared with everyone who may notify it. Several threads may
/// sleep on one doorbell; a notification wakes them all.
struct alignas(line_bytes) doorbell {
  std::atomic<std::uint32_t> word{0};
  std::uint32_t mark = 0; ///< block_mark in a block
};
static_assert(sizeof(doorbell) == line_bytes && std::atomic<std::uint32_t>::is_always_lock_free);

/// Doorbells may form a *block*: they lie in memory that is aligned to block_bytes wherever it is
/// mapped, within as many bytes, and bear block_mark. At block_doorbell_at from the start of that
/// memory there is one more doorbell, without the mark, which is notified with any of them. On it a
/// thread sleeps for several at once where the kernel has no futex_waitv (before Linux 5.16), or
/// where they are too many for it. A doorbell of no block may be notified by this process only, if
/// threads sleep for it and others.
inline constexpr std::size_t block_bytes = 65536;
inline constexpr std::size_t block_doorbell_at = 2 * line_bytes;
inline constexpr std::uint32_t block_mark = 0x6b636c62; // "blck"

/// Wakes whoever sleeps on `b`. A system call, for use only when `b` is armed.
void notify(doorbell& b) noexcept;

/// notify() when somebody sleeps there; a load otherwise.
inline void notify_if_armed(doorbell& b) noexcept {
  // Relaxed: the sleeper's barrier orders it against our preceding stores, as long as the compiler
  // keeps their order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((b.word.load(std::memory_order_relaxed) & armed_flag) != 0) notify(b);
}

/// One of the doorbells that a thread is about to sleep on.
struct armed_doorbell {
  doorbell* which;
  std::uint32_t seen = 0; ///< its word after it was armed
};

/// Sets the flags of all `doorbells` and passes the barrier. The caller then looks once more at
/// everything that the doorbells stand for, and calls sleep_on() only if there was nothing.
void arm(std::span<armed_doorbell> doorbells) noexcept;

/// Sleeps until one of `doorbells` is notified or `deadline` passes; not at all when one was
/// notified since arm(). May return early for no reason, and does so every millisecond where the
/// kernel cannot wait for several and they are of several blocks. Call after arm() and a second
/// poll.
void sleep_on(std::span<const armed_doorbell> doorbells, time_point deadline) noexcept;

/// True when the kernel offers the barrier. Without it a sleeper wakes up every millisecond to
/// poll.
[[nodiscard]] bool has_asymmetric_barrier() noexcept;

/// Registers this process for other processes' barriers. Call once before the first sleep or send.
void register_for_barriers() noexcept;

/// Makes every running thread of this process pass a memory barrier. False when the kernel refuses;
/// then the caller needs another way.
[[nodiscard]] bool process_barrier() noexcept;

} // namespace farcall
