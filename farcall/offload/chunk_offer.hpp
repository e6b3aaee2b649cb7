#pragma once

#include <farcall/base/bytes.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

namespace farcall::detail {

/// A copy between memory of two processes, as its maker sees it.
struct offered_copy {
  std::uint64_t ours = 0;   ///< address at the maker
  std::uint64_t theirs = 0; ///< address at the peer
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 1;
  bool is_put = true; ///< from the maker to the peer

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

/// Hands out the chunks of a copy, in memory that its maker and a peer share, so that both take
/// some and two processors copy. The maker makes one copy after the other by it, and depends on the
/// peer for what that has taken only. What the peer has heard of an earlier copy gets it nothing of
/// a later one.
class alignas(line_bytes) chunk_offer {
 public:
  // ---- the maker ----

  /// Offers a copy of less than 2^32 - 1 chunks; the one before is over.
  void open(const offered_copy& c) noexcept;
  /// The next chunk's number; nothing when all are taken.
  [[nodiscard]] std::optional<std::uint64_t> take(const offered_copy& c) noexcept;
  /// From now on nobody takes a chunk. How many were taken, by both.
  [[nodiscard]] std::uint64_t close(const offered_copy& c) noexcept;
  /// How many chunks the peer has taken and done with.
  [[nodiscard]] std::uint64_t ended_by_peer() const noexcept {
    // Acquire; partner: the release addition in help().
    return ended_.load(std::memory_order_acquire);
  }
  /// Of these the one that it could not copy; it takes no others then.
  [[nodiscard]] std::optional<std::uint64_t> refused() const noexcept;
  /// The peer is not to be asked any more: it can copy nothing.
  void give_up_peer() noexcept { is_given_up_.store(true, std::memory_order_relaxed); }

  /// Whether somebody has to ask the peer to help(), so that it does: it was not asked, or has been
  /// here since. The caller asks it then, or calls ask_later().
  [[nodiscard]] bool ask() noexcept {
    if (is_given_up_.load(std::memory_order_relaxed)) return false;
    // Acquire; partner: ask_later() of the peer, whose next thread sees what that one has refused.
    return !is_asked_.exchange(true, std::memory_order_acquire);
  }
  void ask_later() noexcept { is_asked_.store(false, std::memory_order_release); }

  // ---- the peer ----

  /// Copies chunks by `make(copy, chunk)`, which returns whether it could, until there are none, or
  /// `has_other_work()`, or one is refused; of a copy of which one was refused, none. Returns how
  /// many.
  template <class Make, class HasOtherWork>
  std::uint64_t help(const Make& make, const HasOtherWork& has_other_work) {
    std::uint64_t made = 0;
    // The maker makes up for one that was refused, and knows of no others.
    while (refused_.load(std::memory_order_relaxed) == 0 && !has_other_work()) {
      offered_copy c;
      const std::optional<std::uint64_t> number = take_as_peer(c);
      if (!number) break;
      const bool is_made = make(c, c.chunk_at(*number));
      if (!is_made) refused_.store(*number + 1, std::memory_order_relaxed);
      // Release; partner: ended_by_peer().
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

  std::atomic<std::uint64_t> next_{none_left}; ///< number of the copy << 32 | of the next chunk

  // Relaxed: ordered by next_.
  std::atomic<std::uint64_t> ours_{0};
  std::atomic<std::uint64_t> theirs_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> chunk_bytes_{1};
  std::atomic<bool> is_put_{true};
  std::atomic<bool> is_given_up_{false};
  std::atomic<bool> is_asked_{false};

  alignas(line_bytes) std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> refused_{0}; ///< number + 1
};

static_assert(sizeof(chunk_offer) == 2 * line_bytes, "two programs use it");

} // namespace farcall::detail
