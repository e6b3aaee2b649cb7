// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "long_parts.hpp"
#include "message.hpp"
#include "message_queue.hpp"

#include <farcall_am2.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace farcall::am2 {

inline constexpr std::size_t handler_count = 256;
inline constexpr std::size_t min_translations = 256;
inline constexpr std::size_t max_translations = std::size_t{1} << 20;
inline constexpr int max_outstanding = 1 << 20;
inline constexpr int default_outstanding = 128;
inline constexpr std::size_t max_bundles = 254;

struct translation {
  bool is_in_use = false;
  endpoint_name name;
  std::atomic<tag_t> tag{0};

  translation() noexcept = default;
  translation(const translation& other) noexcept { *this = other; }
  translation& operator=(const translation& other) noexcept {
    is_in_use = other.is_in_use;
    name = other.name;
    tag.store(other.tag.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  ~translation() = default;
};

/// Card of an endpoint: the address and the length of its segment, and the tag that it accepts. The
/// card is in memory that the processes share, and is a seqlock with one writer, the endpoint's
/// process. The sender of a long message reads the receiver's card before it copies the payload. If
/// the receiver first changes its segment and then notifies the sender by a message, the sender
/// therefore sees the change in the card.
struct segment_card {
  std::atomic<std::uint64_t> version{0}; ///< odd during a write
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<tag_t> tag{AM_NONE};

  struct values {
    std::uint64_t address;
    std::uint64_t bytes;
    tag_t tag;
  };
  void write(const values& v) noexcept;
  /// Returns the values of the card. Returns none while the owner writes the card.
  [[nodiscard]] std::optional<values> read() const noexcept;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(segment_card) == 32);

/// Segment of a peer as it is mapped in this process.
struct mapped_segment {
  std::uint64_t address = 0; ///< in the peer's process
  std::uint64_t bytes = 0;
  std::byte* here = nullptr; ///< address in this process; null if the memory is not shared
};

/// State that an endpoint keeps for another endpoint, a peer, which is in its table. There is one
/// object for a peer even if the table contains the peer at several indices.
struct peer {
  endpoint_name name;
  int index = -1; ///< first index of the peer in the table
  /// Bits that identify both endpoints in compact messages. Empty if the peer is in this process,
  /// or if the numbers of the endpoints do not fit into the bits.
  std::optional<std::uint32_t> route;

  // Arrays have one element for each category. Accesses are relaxed, because counters do not
  // publish other data.
  std::array<std::atomic<std::uint32_t>, 3> outstanding{}; ///< slots that requests to the peer hold
  /// Slots of the peer's requests that must be given back.
  std::array<std::atomic<std::uint32_t>, 3> owed{};
  std::atomic<std::uint32_t> outstanding_total{0};
  std::atomic<std::uint32_t> owed_total{0};
  /// Null until the peer has sent the card's address.
  std::atomic<const segment_card*> card{nullptr};
  std::atomic<bool> has_asked{false}; ///< for the card's address
  /// True if handler 0 was called for the end of the peer's process.
  std::atomic<bool> end_is_told{false};
  std::mutex mapped_mutex; ///< guards `mapped` with AM_PAR
  mapped_segment mapped;
  std::atomic<std::uint32_t> sent{0}; ///< requests since the last request that asked for slots
  long_parts parts;                   ///< parts of long messages that the peer sends in parts
};

} // namespace farcall::am2

/// A bundle is a group of endpoints that are polled together.
struct am2_bundle {
  explicit am2_bundle(bool is_shared) noexcept : is_parallel(is_shared) {}

  const bool is_parallel; ///< AM_PAR
  std::atomic<int> event_mask{AM_NOEVENTS};
  std::atomic<std::uint32_t> posts{0}; ///< AM2_PostSema calls that have not ended a wait yet
  /// Number of ended nodes of which the bundle's endpoints have been told.
  std::atomic<std::uint64_t> ends_seen{0};
  /// Compact requests since the last poll. Accesses are relaxed, because only one thread at a time
  /// uses an AM_SEQ bundle.
  std::atomic<unsigned> requests_since_poll{0};
  std::vector<am2_endpoint*> endpoints;
  /// Guards `endpoints`. A change of the list takes the lock exclusively. Readers take it shared if
  /// the bundle is AM_PAR. They need no lock if the bundle is AM_SEQ, because the program lets only
  /// one thread at a time use the bundle.
  std::shared_mutex guard;
};

struct am2_endpoint {
  am2_endpoint(am2_bundle& in, farcall::am2::endpoint_name own)
      : name(own), bundle(&in), table(farcall::am2::min_translations) {}
  am2_endpoint(const am2_endpoint&) = delete;
  am2_endpoint& operator=(const am2_endpoint&) = delete;

  using handler_table = std::array<std::atomic<amx_handler_fn_t>, farcall::am2::handler_count>;
  using counts = std::array<std::atomic<std::uint64_t>, sizeof(amx_stats_t) / 8>;

  const farcall::am2::endpoint_name name;
  am2_bundle* bundle;
  std::atomic<tag_t> tag{AM_NONE};
  std::atomic<std::byte*> segment{nullptr};
  std::atomic<std::uint64_t> segment_bytes{0};
  /// Card of the endpoint. The card is not freed with the endpoint, because other processes read
  /// the card.
  farcall::am2::segment_card* card = nullptr;
  std::vector<farcall::am2::translation> table;
  /// Null for a handler that is not set; if handler 0 is not set, a default handler runs.
  handler_table handlers{};
  std::atomic<amx_handler_prefn_t> before{nullptr};
  std::atomic<amx_handler_postfn_t> after{nullptr};
  counts statistics{}; ///< the words of an amx_stats_t

  /// Number of requests that may be outstanding to a peer; 0 before set_resources(). The next four
  /// members do not change after set_resources().
  std::atomic<std::uint32_t> depth{0};
  std::unique_ptr<farcall::am2::peer[]> peers;
  std::size_t peer_count = 0;
  /// Peers by index in the table; null if nothing is mapped at the index.
  std::vector<farcall::am2::peer*> peer_at;
  std::unordered_map<std::uint64_t, std::size_t> peer_by_name;

  std::atomic<bool> owes{false};       ///< true if slots must be given back to some peers
  farcall::am2::message_queue arrived; ///< messages that could not be run when they arrived

  [[nodiscard]] bool is_ready() const noexcept {
    // Acquire pairs with the release store in set_resources(), so that the peers are visible.
    return depth.load(std::memory_order_acquire) != 0;
  }
  void set_resources(std::uint32_t outstanding);
  /// Publishes the tag and the segment to other processes after a change.
  void write_card() noexcept;
  /// Returns the peer object of another endpoint; null if the table does not contain that endpoint.
  [[nodiscard]] farcall::am2::peer* find_peer(farcall::am2::endpoint_name of) const noexcept {
    // Try index `node` first, because the table of a job has node i at index i.
    farcall::am2::peer* const p = mapped_at(of.node);
    return p != nullptr && p->name == of ? p : find_peer_elsewhere(of);
  }
  /// Returns the peer at this index of the table. Returns null if nothing is mapped at the index,
  /// or before set_resources().
  [[nodiscard]] farcall::am2::peer* mapped_at(int index) const noexcept {
    const auto at = static_cast<std::size_t>(index);
    return at < peer_at.size() ? peer_at[at] : nullptr;
  }

  [[nodiscard]] farcall::am2::peer*
  find_peer_elsewhere(farcall::am2::endpoint_name of) const noexcept;

  /// Adds `n` to the word with index `at` of the statistics.
  void count(std::size_t at, std::uint64_t n = 1) noexcept {
    std::atomic<std::uint64_t>& c = statistics[at];
    if (bundle->is_parallel) {
      c.fetch_add(n, std::memory_order_relaxed);
    } else {
      c.store(c.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
  }
};

namespace farcall::am2 {

/// Index of a member of amx_stats_t when the struct is seen as an array of 64-bit words.
#define AM2_STATISTIC(member) (offsetof(amx_stats_t, member) / sizeof(std::uint64_t))

/// Takes a slot for a request. Returns false if all slots for the peer are taken.
[[nodiscard]] bool take_slot(am2_endpoint& ep, peer& p, category c) noexcept;
/// Frees slots that the peer has given back. Slots that were never taken are ignored.
void give_slots_back(const am2_endpoint& ep, peer& p, const credits& c) noexcept;
/// Frees the slot of one request, and is faster than give_slots_back(). Only for endpoints of
/// AM_SEQ bundles.
inline void give_one_slot_back(peer& p, category of_request) noexcept {
  std::atomic<std::uint32_t>& of_kind = p.outstanding[std::size_t(of_request)];
  const std::uint32_t before = of_kind.load(std::memory_order_relaxed);
  if (before == 0) return;
  of_kind.store(before - 1, std::memory_order_relaxed);
  p.outstanding_total.store(p.outstanding_total.load(std::memory_order_relaxed) - 1,
                            std::memory_order_relaxed);
}
/// Frees all slots that requests to the peer hold, once the peer's process has ended. Returns their
/// numbers by category.
[[nodiscard]] credits take_outstanding(peer& p) noexcept;
/// Notes that the slot of the peer's request must be given back later, because no reply has done
/// so.
void owe_slot(const am2_endpoint& ep, peer& p, category c) noexcept;
/// Takes slots that must be given back to the peer, as many as one message can give back.
[[nodiscard]] credits take_owed(const am2_endpoint& ep, peer& p) noexcept;

} // namespace farcall::am2
