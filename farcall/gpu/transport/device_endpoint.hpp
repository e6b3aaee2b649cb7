#pragma once

#include <farcall/gpu/transport/slot.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::cuda {

/// Words of the next message that a look is to bring, after one of `words`: as few as come in one
/// line of a GPU's cache, 128 bytes, or more.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t
expected_after(std::uint32_t words) noexcept {
  constexpr std::uint32_t line = 128 / sizeof(std::uint64_t);
  return words <= line ? line : words <= 2 * line ? 2 * line : slot_words;
}

/// The device's end of a lane. Lives in memory of the worker's team; all members are for one thread
/// of it at a time. What must outlast the worker is kept in the block by park().
struct device_endpoint {
  lane_memory* block;
  std::uint32_t ring_bytes;
  std::uint32_t expected_words; ///< see expected_after()
  std::uint64_t down_next;
  std::uint64_t down_told;
  std::uint64_t up_next;
  std::uint64_t up_consumed; ///< as far as we know
  std::uint64_t bounce_used_at[bounce_buffers];
  std::uint32_t next_bounce;
  std::uint32_t calls_made; ///< in a lane to the host, which is opened by the first one

  /// Takes up where the worker before has left.
  FARCALL_HOST_DEVICE void resume(lane_memory& b, std::uint32_t bytes) noexcept {
    // All that is far is asked for before any of it is used.
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

  /// Where the message at `position` comes.
  [[nodiscard]] FARCALL_HOST_DEVICE const slot& down_at(std::uint64_t position) const noexcept {
    return block->down[slot_at(position)];
  }
  [[nodiscard]] FARCALL_HOST_DEVICE const slot& next_down() const noexcept {
    return down_at(down_next);
  }

  /// Where the record of a message lies, header first.
  [[nodiscard]] FARCALL_HOST_DEVICE const std::byte*
  record_of(const std::uint32_t* message) const noexcept {
    if (record_bytes(message[0]) <= slot_bytes) return reinterpret_cast<const std::byte*>(message);
    return block->requests() + message[2];
  }

  /// The next message was read, its slot can be written again.
  FARCALL_HOST_DEVICE void take() noexcept { ++down_next; }
  /// Messages were taken that the host was not told of: so many that it should be.
  [[nodiscard]] FARCALL_HOST_DEVICE bool owes_credit() const noexcept {
    return down_next - down_told >= ring_slots / 4;
  }
  /// Tells the host how far we are. No fence: what was in the slots has been read by loads that
  /// later stores do not pass.
  FARCALL_HOST_DEVICE void tell_consumed() noexcept {
    if (down_next == down_told) return;
    down_told = down_next;
    store_relaxed(&block->down_consumed, down_next);
  }
  /// The same, behind all that was read and written before: a long record lay outside the slots,
  /// and a lane that is closed is opened again once the host sees this.
  FARCALL_HOST_DEVICE void release_consumed() noexcept {
    down_told = down_next;
    store_release(&block->down_consumed, down_next);
  }

  /// Whether a record of any length can be sent now. Reads across the bus only when it seems not.
  [[nodiscard]] FARCALL_HOST_DEVICE bool has_space() noexcept {
    const std::uint64_t bounce_free_at = bounce_used_at[next_bounce % bounce_buffers];
    if (up_next - up_consumed < ring_slots && bounce_free_at <= up_consumed) return true;
    up_consumed = load_acquire(&block->up_consumed);
    return up_next - up_consumed < ring_slots && bounce_free_at <= up_consumed;
  }

  /// Offset of the bounce buffer for the next rendezvous record, which send() then names.
  [[nodiscard]] FARCALL_HOST_DEVICE std::uint32_t next_bounce_offset() const noexcept {
    return next_bounce % bounce_buffers * (ring_bytes / bounce_buffers);
  }
  FARCALL_HOST_DEVICE void use_bounce() noexcept {
    bounce_used_at[next_bounce % bounce_buffers] = up_next + 1;
    ++next_bounce;
  }

  [[nodiscard]] FARCALL_HOST_DEVICE slot& next_up() noexcept { return block->up[slot_at(up_next)]; }

  /// One thread sends a message of `words`, for which there is room.
  FARCALL_HOST_DEVICE void send(const std::uint32_t* payload, std::uint32_t words) noexcept {
    store_slot(next_up(), payload, words, phase_of(up_next));
    ++up_next;
  }
  /// One thread looks for the next message, whose words are then in `message`.
  [[nodiscard]] FARCALL_HOST_DEVICE bool look(std::uint32_t* message) const noexcept {
    return load_slot(next_down(), phase_of(down_next), message);
  }
};

} // namespace farcall::cuda
