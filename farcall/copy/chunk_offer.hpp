// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

namespace farcall::detail {

/// A copy between memory of two processes, as seen by the process that makes the copy (the maker).
struct offered_copy {
  std::uint64_t ours = 0;   ///< address in the maker's memory
  std::uint64_t theirs = 0; ///< address in the peer's memory
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 1;
  bool is_put = true; ///< true if the bytes go from the maker to the peer

  struct chunk {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  [[nodiscard]] std::uint64_t chunks() const noexcept {
    return (bytes + chunk_bytes - 1) / chunk_bytes;
  }
  [[nodiscard]] chunk chunk_at(std::uint64_t number) const noexcept {
    const std::uint64_t offset = number * chunk_bytes;
    return {offset, std::min(chunk_bytes, bytes - offset)};
  }
};

/// Hands out the chunks of a copy to two processes, the maker of the copy and its peer, so that two
/// processors copy. The object is in memory that both processes share. The maker uses one offer for
/// many copies, one after the other. At the end of a copy, the maker waits only for those chunks
/// that the peer has taken. A peer that has read the data of an earlier copy can never take a chunk
/// of a later copy by mistake.
class alignas(line_bytes) chunk_offer {
 public:
  // ---- the maker ----

  /// Offers a copy of less than 2^32 - 1 chunks; the previous copy must be over.
  void open(const offered_copy& c) noexcept;
  /// Takes the next chunk; returns its number, or nullopt if all are taken.
  [[nodiscard]] std::optional<std::uint64_t> take(const offered_copy& c) noexcept;
  /// Ends the offer, so that no chunk can be taken any more. Returns the number of chunks that were
  /// taken, by both ends together.
  [[nodiscard]] std::uint64_t close(const offered_copy& c) noexcept;
  /// Returns the number of chunks that the peer has taken and finished.
  [[nodiscard]] std::uint64_t ended_by_peer() const noexcept {
    // Acquire, paired with the release addition in help(), so that this thread sees the bytes of
    // the chunks that the peer has finished.
    return ended_.load(std::memory_order_acquire);
  }
  /// Returns the chunk that the peer has taken and could not copy, if there is one. ended_by_peer()
  /// counts this chunk, too. Afterwards the peer takes no more chunks of the same copy.
  [[nodiscard]] std::optional<std::uint64_t> refused() const noexcept;
  /// Stops requests for help to the peer, because it cannot copy.
  void give_up_peer() noexcept { is_given_up_.store(true, std::memory_order_relaxed); }

  /// True if the maker has to ask the peer to call help(), because no request is under way and the
  /// peer is not in help(). After a result of true, the maker must either ask the peer or call
  /// ask_later().
  [[nodiscard]] bool ask() noexcept {
    if (is_given_up_.load(std::memory_order_relaxed)) return false;
    // Acquire, paired with the release store in ask_later() of the peer. The next thread of the
    // peer that helps then sees which chunk the previous thread has refused.
    return !is_asked_.exchange(true, std::memory_order_acquire);
  }
  void ask_later() noexcept { is_asked_.store(false, std::memory_order_release); }

  // ---- the peer ----

  /// Takes chunks and copies each by `make(copy, chunk)`. If `make` returns false, the chunk is
  /// refused, and no further chunk of this copy is taken. Ends when no chunk is left, when
  /// `has_other_work()` is true, or after a refused chunk. Returns the number of copied chunks.
  template <class Make, class HasOtherWork>
  std::uint64_t help(const Make& make, const HasOtherWork& has_other_work) {
    std::uint64_t made = 0;
    // Stop at the first refused chunk, because refused_ has space for the number of one chunk only.
    // The maker then copies this chunk.
    while (refused_.load(std::memory_order_relaxed) == 0 && !has_other_work()) {
      offered_copy c;
      const std::optional<std::uint64_t> number = take_as_peer(c);
      if (!number) break;
      const bool is_made = make(c, c.chunk_at(*number));
      if (!is_made) refused_.store(*number + 1, std::memory_order_relaxed);
      // Release, paired with the acquire load in ended_by_peer(), so that the maker sees the copied
      // bytes.
      ended_.fetch_add(1, std::memory_order_release);
      if (!is_made) break;
      ++made;
    }
    ask_later();
    return made;
  }

 private:
  [[nodiscard]] std::optional<std::uint64_t> take_as_peer(offered_copy& c) noexcept;

  static constexpr std::uint64_t none_left = UINT32_MAX;

  /// number of the copy << 32 | number of the next chunk
  std::atomic<std::uint64_t> next_{none_left};

  // Relaxed: ordered by next_.
  std::atomic<std::uint64_t> ours_{0};
  std::atomic<std::uint64_t> theirs_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> chunk_bytes_{1};
  std::atomic<bool> is_put_{true};
  std::atomic<bool> is_given_up_{false};
  std::atomic<bool> is_asked_{false};

  alignas(line_bytes) std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> refused_{0}; ///< number of the refused chunk + 1; 0 if no chunk was
                                          ///< refused
};

static_assert(sizeof(chunk_offer) == 2 * line_bytes, "two programs use it");

} // namespace farcall::detail
