// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/base/clock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

/// Lets a thread sleep until a message comes. Arming costs the sleeping thread a barrier, so that a
/// sender pays only a plain load for each message.
///
/// The sleeper arms its doorbell, makes every core pass a barrier (membarrier), polls its rings
/// once more and then sleeps on the doorbell's word. The sender commits its message, and reads the
/// word with a plain load. Either the sender sees that the doorbell is armed, or the sleeper's
/// second poll sees the message.
///
/// The word also counts notifications (an event count). A notification between the second poll and
/// the sleep is therefore noticed, even if another thread has armed the doorbell again.
namespace farcall {

/// Flag in a doorbell's word. The flag is set when a thread arms the doorbell, and cleared by the
/// next notification. The bits above the flag count notifications.
inline constexpr std::uint32_t armed_flag = 1;

/// A word on which threads sleep until another thread notifies it. The word is in memory that is
/// shared with all processes that may notify it. Several threads may sleep on one doorbell, and a
/// notification wakes all of them.
struct alignas(line_bytes) doorbell {
  std::atomic<std::uint32_t> word{0};
  std::uint32_t mark = 0; ///< block_mark if the doorbell is in a block; otherwise 0
};
static_assert(sizeof(doorbell) == line_bytes && std::atomic<std::uint32_t>::is_always_lock_free);

/// Doorbells may form a *block*, so that a thread can wait for several of them on an old kernel. A
/// block is memory of block_bytes bytes, aligned to block_bytes wherever it is mapped. The
/// doorbells in the block have block_mark. At offset block_doorbell_at, the block has a common
/// doorbell without the mark, which is notified whenever one of the others is notified. A thread
/// that waits for several doorbells of a block sleeps on the common doorbell if the kernel has no
/// futex_waitv (before Linux 5.16) or there are too many doorbells for futex_waitv. A doorbell in
/// no block must be notified only by its own process if a thread waits for it and for other
/// doorbells.
inline constexpr std::size_t block_bytes = 65536;
inline constexpr std::size_t block_doorbell_at = 2 * line_bytes;
inline constexpr std::uint32_t block_mark = 0x6b636c62; // "blck"

/// Wakes the threads that sleep on `b`. Called only for an armed doorbell, because a call makes a
/// system call.
void notify(doorbell& b) noexcept;

/// Calls notify() if `b` is armed. Otherwise this costs only a load.
inline void notify_if_armed(doorbell& b) noexcept {
  // Relaxed, because the sleeper's barrier orders this load after the preceding stores of this
  // thread. The signal fence keeps the compiler from changing their order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((b.word.load(std::memory_order_relaxed) & armed_flag) != 0) notify(b);
}

/// One of the doorbells on which a thread is about to sleep.
struct armed_doorbell {
  doorbell* which;
  std::uint32_t seen = 0; ///< value of the doorbell's word after the doorbell was armed
};

/// First step before a thread sleeps: sets the flag of each doorbell, so that senders notify the
/// doorbell from now on, and passes the barrier. A sender may have committed a message just before
/// it could see the flag. The caller therefore polls all its rings once more, and calls sleep_on()
/// only if the rings have no message.
void arm(std::span<armed_doorbell> doorbells) noexcept;

/// Last step, after arm() and a second poll: sleeps until one of `doorbells` is notified or
/// `deadline` passes. Returns at once if a doorbell was notified after arm(), and may return early.
/// If the kernel cannot wait for these doorbells by one call, and they are in more than one block,
/// sleeps for a millisecond, even if a doorbell is notified or `deadline` is earlier. Returns true
/// if a signal has ended the sleep. Signals that restart system calls may go unnoticed.
bool sleep_on(std::span<const armed_doorbell> doorbells, time_point deadline) noexcept;

/// True if the kernel offers the barrier. Without the barrier, a sleeper wakes up every millisecond
/// to poll.
[[nodiscard]] bool has_asymmetric_barrier() noexcept;

/// Registers this process for the barriers of other processes. Called once, before the first sleep
/// or send.
void register_for_barriers() noexcept;

/// Makes every running thread of this process pass a memory barrier. Returns false if the kernel
/// refuses the barrier, so that the caller needs another method.
[[nodiscard]] bool process_barrier() noexcept;

} // namespace farcall
