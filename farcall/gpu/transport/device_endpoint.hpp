// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/gpu/transport/slot.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::cuda {

/// Returns how many words the next poll of the lane reads, if the last message had `words` words.
/// The result is the number of words in one 128-byte line of a GPU's cache, in two such lines, or
/// in the whole slot.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t
expected_after(std::uint32_t words) noexcept {
  constexpr std::uint32_t line = 128 / sizeof(std::uint64_t);
  return words <= line ? line : words <= 2 * line ? 2 * line : slot_words;
}

/// The device's end of a lane, in the memory of the worker's team. One thread at a time may call
/// its functions. When the worker leaves, park() saves the positions in the lane's memory for the
/// next worker.
struct device_endpoint {
  lane_memory* block;
  std::uint32_t ring_bytes;
  std::uint32_t expected_words; ///< see expected_after()
  std::uint64_t down_next;
  std::uint64_t down_told;
  std::uint64_t up_next;
  std::uint64_t up_consumed; ///< position up to which the host has read, as far as this end knows
  std::uint64_t bounce_used_at[bounce_buffers];
  std::uint32_t next_bounce;
  /// Number of calls that were made in a lane to the host. The first call opens the lane.
  std::uint32_t calls_made;

  /// Restores the state that the previous worker has saved.
  FARCALL_HOST_DEVICE void resume(lane_memory& b, std::uint32_t bytes) noexcept {
    // Issue all loads from the host's memory before using any of their results, so that the loads
    // overlap.
    const std::uint64_t next = b.down_next;
    const std::uint64_t told = b.down_consumed;
    const std::uint64_t up = b.up_next;
    const std::uint32_t bounce = b.next_bounce;
    const std::uint32_t calls = b.calls_made;
    std::uint64_t used_at[bounce_buffers];
    for (std::uint32_t i = 0; i < bounce_buffers; ++i)
      used_at[i] = b.bounce_used_at[i];
    up_consumed = load_acquire(&b.up_consumed);
    block = &b;
    ring_bytes = bytes;
    expected_words = expected_after(0);
    down_next = next;
    down_told = told;
    up_next = up;
    next_bounce = bounce;
    calls_made = calls;
    for (std::uint32_t i = 0; i < bounce_buffers; ++i)
      bounce_used_at[i] = used_at[i];
  }
  FARCALL_HOST_DEVICE void park() noexcept {
    block->down_next = down_next;
    block->up_next = up_next;
    block->next_bounce = next_bounce;
    block->calls_made = calls_made;
    for (std::uint32_t i = 0; i < bounce_buffers; ++i)
      block->bounce_used_at[i] = bounce_used_at[i];
  }

  /// Returns the slot of the message at `position`.
  [[nodiscard]] FARCALL_HOST_DEVICE const slot& down_at(std::uint64_t position) const noexcept {
    return block->down[slot_at(position)];
  }
  [[nodiscard]] FARCALL_HOST_DEVICE const slot& next_down() const noexcept {
    return down_at(down_next);
  }

  /// Returns the address of a message's record, which begins with its header.
  [[nodiscard]] FARCALL_HOST_DEVICE const std::byte*
  record_of(const std::uint32_t* message) const noexcept {
    if (record_bytes(message[0]) <= slot_bytes) return reinterpret_cast<const std::byte*>(message);
    return block->requests() + message[2];
  }

  /// Advances past the next message, which must have been read. The host may write its slot again
  /// after the next tell_consumed() or release_consumed().
  FARCALL_HOST_DEVICE void take() noexcept { ++down_next; }
  /// True if the device must tell the host its read position now, because the device has taken many
  /// messages since it last did so.
  [[nodiscard]] FARCALL_HOST_DEVICE bool owes_credit() const noexcept {
    return down_next - down_told >= ring_slots / 4;
  }
  /// Tells the host up to which position this end has read, so that the host can reuse the slots.
  /// Needs no fence, because the store does not become visible before the loads that have read the
  /// slots.
  FARCALL_HOST_DEVICE void tell_consumed() noexcept {
    if (down_next == down_told) return;
    down_told = down_next;
    store_relaxed(&block->down_consumed, down_next);
  }
  /// Like tell_consumed(), but makes all earlier reads and writes happen before the host sees the
  /// position. This is needed after a rendezvous record, which is read outside the slots. It is
  /// also needed for a closed lane, which the host may open again as soon as it sees the position.
  FARCALL_HOST_DEVICE void release_consumed() noexcept {
    down_told = down_next;
    store_release(&block->down_consumed, down_next);
  }

  /// True if a record of any length can be sent now. Reads the host's position across the bus only
  /// if the known position leaves no space.
  [[nodiscard]] FARCALL_HOST_DEVICE bool has_space() noexcept {
    const std::uint64_t bounce_free_at = bounce_used_at[next_bounce % bounce_buffers];
    if (up_next - up_consumed < ring_slots && bounce_free_at <= up_consumed) return true;
    up_consumed = load_acquire(&block->up_consumed);
    return up_next - up_consumed < ring_slots && bounce_free_at <= up_consumed;
  }

  /// Returns the offset of the bounce buffer for the next rendezvous record. The sender of the
  /// record writes the offset into its slot.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t next_bounce_offset() const noexcept {
    return next_bounce % bounce_buffers * (ring_bytes / bounce_buffers);
  }
  FARCALL_HOST_DEVICE void use_bounce() noexcept {
    bounce_used_at[next_bounce % bounce_buffers] = up_next + 1;
    ++next_bounce;
  }

  [[nodiscard]] FARCALL_HOST_DEVICE slot& next_up() noexcept { return block->up[slot_at(up_next)]; }

  /// Sends a message of `words` words, by one thread. There must be space for it.
  FARCALL_HOST_DEVICE void send(const std::uint32_t* payload, std::uint32_t words) noexcept {
    store_slot(next_up(), payload, words, phase_of(up_next));
    ++up_next;
  }
  /// Polls for the next message, by one thread. If there is one, copies its words to `message` and
  /// returns true.
  [[nodiscard]] FARCALL_HOST_DEVICE bool look(std::uint32_t* message) const noexcept {
    return load_slot(next_down(), phase_of(down_next), message);
  }
};

} // namespace farcall::cuda
