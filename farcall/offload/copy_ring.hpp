#pragma once

#include <farcall/base/bytes.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace farcall::detail {

/// Slots of memory that the maker of a copy and its peer share, for a copy in and out: one end
/// copies a chunk into a slot while the other copies the one before out of another. The maker posts
/// slots, in order; the peer takes them in that order, one at a time, and ends each before it takes
/// the next. What the peer has not taken, the maker takes back. As the copy-in/copy-out of MPI
/// libraries in shared memory, with a sender that can do without the receiver.
///
/// The numbers of slots go on from one copy to the next, so that a peer that comes late takes what
/// is posted then, or nothing. One thread at each end.
class alignas(line_bytes) copy_ring {
 public:
  static constexpr std::uint64_t slots = 8;
  static constexpr std::size_t slot_bytes = std::size_t{64} << 10;

  /// What the peer has to do with a slot.
  struct order {
    std::uint64_t address = 0; ///< at the peer
    std::uint64_t bytes = 0;   ///< at most slot_bytes
    std::uint64_t copy = 0;    ///< that it belongs to
    bool is_put = true;        ///< out of the slot
    bool is_large = false;     ///< the copy is: past the caches
  };
  struct taken_slot {
    std::uint64_t number;
    order what;
  };

  /// Of the slots' memory, `slots * slot_bytes` behind the ring itself.
  [[nodiscard]] static constexpr std::size_t bytes_with_slots() noexcept;
  [[nodiscard]] std::byte* slot(std::uint64_t number) noexcept;

  // ---- the maker ----

  /// A copy begins, or ends; then nothing is posted.
  void open() noexcept {
    refused_.store(0, std::memory_order_relaxed);
    is_open_.store(true, std::memory_order_relaxed);
  }
  void close() noexcept { is_open_.store(false, std::memory_order_relaxed); }
  /// Of the slot with that number, which is the one behind the last, and free.
  void post(std::uint64_t number, const order& what) noexcept;
  /// The number of the oldest posted slot, which the peer does not get any more; nothing when it
  /// has taken all.
  [[nodiscard]] std::optional<std::uint64_t> take_back() noexcept;
  /// How many slots the peer has taken and done with, ever.
  [[nodiscard]] std::uint64_t ended_by_peer() const noexcept {
    // Acquire; partner: the release store in end().
    return ended_.load(std::memory_order_acquire);
  }
  /// All below were taken, by the peer or by the maker.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    return taken_.load(std::memory_order_relaxed);
  }
  /// The last slot that the peer could not copy.
  [[nodiscard]] std::optional<std::uint64_t> refused() const noexcept;
  /// The peer is here, and takes what is posted.
  [[nodiscard]] bool is_attended() const noexcept {
    return is_attended_.load(std::memory_order_relaxed);
  }

  /// Whether somebody has to ask the peer to come; the caller does, or calls ask_later().
  [[nodiscard]] bool ask() noexcept {
    // Acquire; partner: ask_later() of the peer, whose next thread sees what that one has refused.
    return !is_asked_.load(std::memory_order_relaxed) &&
           !is_asked_.exchange(true, std::memory_order_acquire);
  }
  void ask_later() noexcept { is_asked_.store(false, std::memory_order_release); }

  // ---- the peer ----

  /// Copies what is posted by `copy(slot, order)`, which returns whether it could, until the maker
  /// has closed it, or `has_other_work()`, or nothing is posted for as many turns as `pause()`
  /// allows by returning true; nothing of a copy of which one was refused. Returns how many.
  template <class Copy, class HasOtherWork, class Pause>
  std::uint64_t serve(const Copy& copy, const HasOtherWork& has_other_work, const Pause& pause) {
    is_attended_.store(true, std::memory_order_relaxed);
    std::uint64_t made = 0;
    // The maker makes up for one that was refused, and knows of no others.
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

  // Written by the maker.
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<bool> is_open_{false};
  // By both.
  alignas(line_bytes) std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> is_asked_{false};
  // By the peer.
  alignas(line_bytes) std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> refused_{0}; ///< number + 1
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
