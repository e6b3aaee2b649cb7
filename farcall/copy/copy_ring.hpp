// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace farcall::detail {

/// Slots of memory that the maker of a copy and its peer share, so that both work on the copy. The
/// end with the source copies a chunk into a slot, while the other end copies the previous chunk
/// out of another slot. To have a chunk copied, the maker posts a slot. The peer takes posted slots
/// in their order, one at a time, and finishes each before it takes the next. The maker can take
/// back a slot that the peer has not taken. Like the copy-in/copy-out of MPI libraries in shared
/// memory, but the maker can proceed without the peer.
///
/// The numbers of slots continue from one copy to the next. A peer that comes late, after the copy
/// for which it was asked, therefore takes only slots that are posted at that time. One thread at
/// each end uses the ring.
class alignas(line_bytes) copy_ring {
 public:
  static constexpr std::uint64_t slots = 8;
  static constexpr std::size_t slot_bytes = std::size_t{64} << 10;

  /// Description of the peer's work on one slot.
  struct order {
    std::uint64_t address = 0; ///< address in the peer's memory
    std::uint64_t bytes = 0;   ///< at most slot_bytes
    std::uint64_t copy = 0;    ///< number of the copy
    bool is_put = true;        ///< true if the peer copies out of the slot
    bool is_large = false; ///< true if the copy is large, so that the peer copies out of the slot
                           ///< past the caches
  };
  struct taken_slot {
    std::uint64_t number;
    order what;
  };

  /// Returns the size of the memory for the ring object and the slots behind it, in bytes.
  [[nodiscard]] static constexpr std::size_t bytes_with_slots() noexcept;
  [[nodiscard]] std::byte* slot(std::uint64_t number) noexcept;

  // ---- the maker ----

  /// Open and close the ring for one copy. Slots are posted only between the two calls.
  void open() noexcept {
    refused_.store(0, std::memory_order_relaxed);
    is_open_.store(true, std::memory_order_relaxed);
  }
  void close() noexcept { is_open_.store(false, std::memory_order_relaxed); }
  /// Posts slot `number` for the peer. The slot must be free, and its number must be one more than
  /// the number of the slot that was posted before.
  void post(std::uint64_t number, const order& what) noexcept;
  /// Takes back the oldest posted slot that the peer has not taken, so that the maker copies its
  /// chunk itself. Returns the slot's number, or nullopt if the peer has taken all posted slots.
  [[nodiscard]] std::optional<std::uint64_t> take_back() noexcept;
  /// Returns the number of slots that the peer has taken and finished, over all copies.
  [[nodiscard]] std::uint64_t ended_by_peer() const noexcept {
    // Acquire, paired with the release addition in end(), so that the maker sees the bytes of the
    // finished slots.
    return ended_.load(std::memory_order_acquire);
  }
  /// Returns the number of the first slot that is neither taken by the peer nor taken back by the
  /// maker.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    return taken_.load(std::memory_order_relaxed);
  }
  /// Returns the number of the last slot that the peer could not copy.
  [[nodiscard]] std::optional<std::uint64_t> refused() const noexcept;
  /// True if the peer is serving the ring.
  [[nodiscard]] bool is_attended() const noexcept {
    return is_attended_.load(std::memory_order_relaxed);
  }

  /// True if the maker has to ask the peer to serve the ring, because no request is under way and
  /// the peer is not serving. After a result of true, the maker must either ask the peer or call
  /// ask_later().
  [[nodiscard]] bool ask() noexcept {
    // Acquire, paired with the release store in ask_later() of the peer. The next thread of the
    // peer that serves the ring then sees which slot the previous thread has refused.
    return !is_asked_.load(std::memory_order_relaxed) &&
           !is_asked_.exchange(true, std::memory_order_acquire);
  }
  void ask_later() noexcept { is_asked_.store(false, std::memory_order_release); }

  // ---- the peer ----

  /// Takes posted slots and copies each by `copy(slot, order)`. If `copy` returns false, the slot
  /// is refused, and no further slot of this copy is taken. While no slot is posted, calls
  /// `pause(n)`, where n counts these calls in a row. Ends after a refused slot, when `pause(n)`
  /// returns false, when `has_other_work()` is true, or when the maker has closed the ring and no
  /// slot is posted. Returns the number of copied slots.
  template <class Copy, class HasOtherWork, class Pause>
  std::uint64_t serve(const Copy& copy, const HasOtherWork& has_other_work, const Pause& pause) {
    is_attended_.store(true, std::memory_order_relaxed);
    std::uint64_t made = 0;
    // End at the first slot that `copy` refuses, because refused_ holds the number of one slot. The
    // maker of the ring copies the bytes of the refused slot itself.
    for (std::uint64_t idle = 0;
         refused_.load(std::memory_order_relaxed) == 0 && !has_other_work();) {
      const std::optional<taken_slot> next = take();
      if (!next) {
        if (!is_open_.load(std::memory_order_relaxed) || !pause(++idle)) break;
        continue;
      }
      idle = 0;
      const bool is_made = copy(slot(next->number), next->what);
      end(next->number, is_made);
      if (!is_made) break;
      ++made;
    }
    is_attended_.store(false, std::memory_order_relaxed);
    ask_later();
    return made;
  }

  [[nodiscard]] std::optional<taken_slot> take() noexcept;
  void end(std::uint64_t number, bool is_made) noexcept;

 private:
  /// Relaxed: ordered by posted_ and taken_.
  struct shared_order {
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> copy{0};
    std::atomic<std::uint64_t> is_put_and_large{0};
  };

  // Written by the maker:
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<bool> is_open_{false};
  // Written by both:
  alignas(line_bytes) std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> is_asked_{false};
  // Written by the peer:
  alignas(line_bytes) std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> refused_{0}; ///< number of the refused slot + 1; 0 if no slot was
                                          ///< refused
  std::atomic<bool> is_attended_{false};
  alignas(line_bytes) std::array<shared_order, slots> orders_;
};

static_assert(sizeof(copy_ring) == 7 * line_bytes, "two programs use it");

constexpr std::size_t copy_ring::bytes_with_slots() noexcept {
  constexpr std::size_t page = 4096;
  return page + slots * slot_bytes;
}

inline std::byte* copy_ring::slot(std::uint64_t number) noexcept {
  constexpr std::size_t page = 4096;
  return reinterpret_cast<std::byte*>(this) + page + number % slots * slot_bytes;
}

} // namespace farcall::detail
