// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/base/bytes.hpp>
#include <farcall/gpu/transport/launch.hpp>
#include <farcall/gpu/transport/system_scope.hpp>
#include <farcall/memory/record.hpp>

#include <cstddef>
#include <cstdint>

/// Slots: the form in which records are sent across the bus to a GPU and back. The words of a slot
/// show by themselves whether they are valid.
///
/// Each word of 8 bytes holds 4 bytes of the record in its low half, and the phase in its high
/// half. The phase counts the passes of the sender through the ring of slots, beginning with 1. So
/// a reader sees from the words alone whether a whole message is in the slot, no flag is read
/// first, and neither side needs a fence between payload and flag. The only assumption is that
/// words of 8 bytes are written as a whole. New slots have phase 0, which no message has before
/// 2^32 phases have passed, so slots are never cleared. The idea is from NCCL's low-latency
/// protocol.
namespace farcall::cuda {

inline constexpr std::uint32_t slot_words = 64;
/// Maximum number of bytes of a record that is stored in a slot. For a longer record, the slot
/// holds the record's header and the offset of its bytes.
inline constexpr std::uint32_t slot_bytes = slot_words * sizeof(std::uint32_t);
inline constexpr std::uint32_t ring_slots = 64;

struct alignas(128) slot {
  std::uint64_t words[slot_words];
};
static_assert(sizeof(slot) == 512);

/// First words of a slot whose record is stored outside the slot: the record's header, and the
/// record's offset.
struct long_slot {
  record_header record;
  /// Place of the record. For a record to the device it is the offset in the ring of requests. For
  /// a record to the host it is the offset of the bounce buffer.
  std::uint32_t offset;
  std::uint32_t unused;
};
static_assert(sizeof(long_slot) == 16);

/// Kinds of notices about the lane itself, by which its opener tells the other end that the lane is
/// opened or closed. Devices ignore notices.
inline constexpr auto lane_opened = static_cast<record_kind>(240);
inline constexpr auto lane_closed = static_cast<record_kind>(241);
/// Kind of a notice whose first word CUDA writes when an event has completed. The device takes
/// later messages of the lane only after this notice.
inline constexpr auto lane_waits = static_cast<record_kind>(242);

/// Contents of the notices lane_opened and lane_closed. `record.slot` is the number of the opener's
/// doorbell.
struct lane_notice {
  record_header record;
  std::uint32_t worker;
  std::uint32_t own_worker;
};
static_assert(sizeof(lane_notice) == 16);

/// Returns the phase that all words of a message have. `position` is the number of messages that
/// were sent in the lane before it.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t
phase_of(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position / ring_slots) + 1;
}
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t slot_at(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position % ring_slots);
}

[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint64_t word_of(std::uint32_t payload,
                                                                  std::uint32_t phase) noexcept {
  return payload | static_cast<std::uint64_t>(phase) << 32;
}
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t payload_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t phase_in(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}

/// Returns the length of a record, which is in the record's first word.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t
record_bytes(std::uint32_t first) noexcept {
  return first & max_record;
}

/// Returns how many words of its slot a record uses. `first` is the record's first word, which
/// holds its length.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t words_of(std::uint32_t first) noexcept {
  const std::uint32_t bytes = record_bytes(first);
  const std::uint32_t here = bytes <= slot_bytes ? bytes : std::uint32_t{sizeof(long_slot)};
  return (here + 3) / 4;
}

/// Writes the words of a message, by one thread. The words may become visible in any order.
FARCALL_HOST_DEVICE inline void store_slot(slot& s, const std::uint32_t* payload,
                                           std::uint32_t words, std::uint32_t phase) noexcept {
  for (std::uint32_t i = 0; i < words; i += 2) {
    const std::uint32_t second = i + 1 < words ? payload[i + 1] : 0;
    store_relaxed_pair(&s.words[i], word_of(payload[i], phase), word_of(second, phase));
  }
}

/// Polls a slot, by one thread. Returns true if the whole message of `phase` is in the slot, and
/// copies its words to `payload`, which must have slot_words words.
FARCALL_HOST_DEVICE inline bool load_slot(const slot& s, std::uint32_t phase,
                                          std::uint32_t* payload) noexcept {
  constexpr std::uint32_t together = loads_at_a_time;
  // Number of words to read; it is 1 until the message's first word was read, which holds the
  // length
  std::uint32_t words = 1;
  for (std::uint32_t at = 0; at < words; at += 2 * together) {
    std::uint64_t first[together];
    std::uint64_t second[together];
    for (std::uint32_t i = together; i-- > 0;) {
      const std::uint64_t* const from = &s.words[at + 2 * i];
      // Load the slot's first two words after the rest of the first batch, with acquire. All writes
      // that the sender made before the message are then visible.
      if (at + i == 0) {
        load_acquire_pair(from, first[i], second[i]);
      } else {
        load_relaxed_pair(from, first[i], second[i]);
      }
    }
    if (at == 0) {
      if (phase_in(first[0]) != phase) return false;
      words = words_of(payload_of(first[0]));
    }
    for (std::uint32_t i = 0; i < together; ++i) {
      const std::uint32_t place = at + 2 * i;
      if (place < words && phase_in(first[i]) != phase) return false;
      if (place + 1 < words && phase_in(second[i]) != phase) return false;
      payload[place] = payload_of(first[i]);
      payload[place + 1] = payload_of(second[i]);
    }
  }
  return true;
}

/// Maximum number of rendezvous records that a device can have in flight to the host. Each has a
/// bounce buffer of a quarter of the ring's size.
inline constexpr std::uint32_t bounce_buffers = 4;

/// Memory of a lane that host and device share; zeroed before its first use. "Down" means from the
/// host to the device, and "up" from the device to the host. Positions count slots from the first
/// use of the lane on, even if it is opened again.
///
/// Two areas follow this structure. The first is the host's ring of requests, in which the device
/// reads rendezvous records directly. The second has the bounce buffers for rendezvous records of
/// the device.
struct lane_memory {
  /// Position up to which the device has read. Written by the device.
  alignas(line_bytes) std::uint64_t down_consumed;
  /// Position up to which the host has read. Written by the host.
  alignas(line_bytes) std::uint64_t up_consumed;
  /// State of the device's end, stored here while no worker runs. These two words are the position
  /// of the next slot to read and the position of the next slot to write.
  alignas(line_bytes) std::uint64_t down_next;
  std::uint64_t up_next;
  std::uint64_t
      bounce_used_at[bounce_buffers]; ///< position of the slot that last used the buffer, plus 1
  std::uint32_t next_bounce;
  std::uint32_t calls_made;                  ///< by the device
  std::uint64_t launches_done[max_launches]; ///< numbers of the launches that have ended
  slot down[ring_slots];
  slot up[ring_slots];

  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* requests() noexcept {
    return reinterpret_cast<std::byte*>(this + 1);
  }
  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* bounce_buffer(std::uint32_t offset,
                                                             std::uint32_t ring_bytes) noexcept {
    return requests() + ring_bytes + offset;
  }
  /// Returns the distance in bytes from one lane's memory to the next.
  [[nodiscard]] FARCALL_HOST_DEVICE static constexpr std::uint64_t
  stride(std::uint32_t ring_bytes) noexcept {
    return sizeof(lane_memory) + 2 * std::uint64_t{ring_bytes};
  }
};
static_assert(sizeof(lane_memory) % line_bytes == 0);

} // namespace farcall::cuda
