#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/gpu/transport/launch.hpp>
#include <farcall/gpu/transport/system_scope.hpp>
#include <farcall/memory/record.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>

/// How a record crosses the bus to a GPU, and back: in one slot of words that validate themselves.
///
/// Each word of 8 bytes holds 4 bytes of the record and, above them, the phase, so that
/// whoever reads a slot sees by the words alone whether the message is there and whole: no flag is
/// read first, and no fence stands between payload and flag on either side. Only that words of 8
/// bytes are whole is assumed. Slots start with phase 0, which no message bears before 2^32 phases
/// have gone by, so nothing is ever cleared. The idea is that of NCCL's low-latency protocol.
namespace farcall::cuda {

inline constexpr std::uint32_t slot_words = 64;
/// Bytes of the longest record that fits a slot. Of longer ones the slot holds the header and says
/// where they lie.
inline constexpr std::uint32_t slot_bytes = slot_words * sizeof(std::uint32_t);
inline constexpr std::uint32_t ring_slots = 64;

struct alignas(128) slot {
  std::uint64_t words[slot_words];
};
static_assert(sizeof(slot) == 512);

/// First words of a slot whose record lies elsewhere: the record's own header, then its place.
struct long_slot {
  record_header record;
  std::uint32_t offset; ///< down: in the ring of requests; up: of the bounce buffer, in the replies
  std::uint32_t unused;
};
static_assert(sizeof(long_slot) == 16);

/// Records that say something about the lane instead of passing through it: their kinds. Devices
/// ignore them.
inline constexpr auto lane_opened = static_cast<record_kind>(240);
inline constexpr auto lane_closed = static_cast<record_kind>(241);
/// Its first word is written behind an event, and what was sent after it waits for that.
inline constexpr auto lane_waits = static_cast<record_kind>(242);

/// The record of both. What `slot` is in other records is the opener's doorbell.
struct lane_notice {
  record_header record;
  std::uint32_t worker;
  std::uint32_t own_worker;
};
static_assert(sizeof(lane_notice) == 16);

/// What the words of a message at `position`, counted from the lane's beginning, bear.
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

/// Length of a record from its first word.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t
record_bytes(std::uint32_t first) noexcept {
  return first & largest_record;
}

/// How many words of a slot a record takes whose first word is `first`.
[[nodiscard]] FARCALL_HOST_DEVICE constexpr std::uint32_t words_of(std::uint32_t first) noexcept {
  const std::uint32_t bytes = record_bytes(first);
  const std::uint32_t here = bytes <= slot_bytes ? bytes : std::uint32_t{sizeof(long_slot)};
  return (here + 3) / 4;
}

/// One thread writes the words of a message, in any order.
FARCALL_HOST_DEVICE inline void store_slot(slot& s, const std::uint32_t* payload,
                                           std::uint32_t words, std::uint32_t phase) noexcept {
  for (std::uint32_t i = 0; i < words; i += 2) {
    const std::uint32_t second = i + 1 < words ? payload[i + 1] : 0;
    store_relaxed_pair(&s.words[i], word_of(payload[i], phase), word_of(second, phase));
  }
}

/// One thread looks: true when the whole message of `phase` is there, whose words are then in
/// `payload` (slot_words of them fit).
FARCALL_HOST_DEVICE inline bool load_slot(const slot& s, std::uint32_t phase,
                                          std::uint32_t* payload) noexcept {
  constexpr std::uint32_t together = loads_at_a_time;
  std::uint32_t words = 1; // until the first one says it
  for (std::uint32_t at = 0; at < words; at += 2 * together) {
    std::uint64_t first[together];
    std::uint64_t second[together];
    for (std::uint32_t i = together; i-- > 0;) {
      const std::uint64_t* const from = &s.words[at + 2 * i];
      // The first words are read last: with them is seen what was written before the message.
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

/// How many rendezvous records can be on their way up at a time. Each has a bounce buffer of a
/// quarter ring.
inline constexpr std::uint32_t bounce_buffers = 4;

/// What a lane consists of in memory that host and device share, which is zeroed before its first
/// use. "Down" is from the host to the device. Positions count slots and go on from one opener to
/// the next.
///
/// Behind it lie the host's ring of requests, from which the device reads long records in place,
/// and the bounce buffers for rendezvous records of the device.
struct lane_memory {
  alignas(line_bytes) std::uint64_t down_consumed; ///< position, told by the device
  alignas(line_bytes) std::uint64_t up_consumed;   ///< position, told by the host
  /// The device's own, kept while no worker runs: positions of the next slot to read and to write.
  alignas(line_bytes) std::uint64_t down_next;
  std::uint64_t up_next;
  std::uint64_t
      bounce_used_at[bounce_buffers]; ///< position of the slot that last named the buffer, + 1
  std::uint32_t next_bounce;
  std::uint32_t calls_made;                   ///< by the device
  std::uint64_t launches_done[most_launches]; ///< number of the launch that has ended
  slot down[ring_slots];
  slot up[ring_slots];

  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* requests() noexcept {
    return reinterpret_cast<std::byte*>(this + 1);
  }
  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* bounce_buffer(std::uint32_t offset,
                                                             std::uint32_t ring_bytes) noexcept {
    return requests() + ring_bytes + offset;
  }
  /// From one block to the next.
  [[nodiscard]] FARCALL_HOST_DEVICE static constexpr std::uint64_t
  stride(std::uint32_t ring_bytes) noexcept {
    return sizeof(lane_memory) + 2 * std::uint64_t{ring_bytes};
  }
};
static_assert(sizeof(lane_memory) % line_bytes == 0);

} // namespace farcall::cuda
