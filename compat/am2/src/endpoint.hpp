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
inline constexpr std::size_t fewest_translations = 256;
inline constexpr std::size_t most_translations = std::size_t{1} << 20;
inline constexpr int most_outstanding = 1 << 20;
inline constexpr int default_outstanding = 128;
inline constexpr std::size_t most_bundles = 254;

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

/// Where an endpoint's segment is, and the tag that it accepts, in memory of the job: those that
/// send it longs read it before they copy, so that they see what has changed as soon as they could
/// know of it. One writer.
struct segment_card {
  std::atomic<std::uint64_t> version{0}; ///< odd while the others change
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<tag_t> tag{AM_NONE};

  struct values {
    std::uint64_t address;
    std::uint64_t bytes;
    tag_t tag;
  };
  void write(const values& v) noexcept;
  /// Nothing while it changes.
  [[nodiscard]] std::optional<values> read() const noexcept;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(segment_card) == 32);

/// Memory of a peer as it is here.
struct mapped_segment {
  std::uint64_t address = 0; ///< there
  std::uint64_t bytes = 0;
  std::byte* here = nullptr; ///< null where it is not shared
};

/// What an endpoint keeps of another that is in its table, however often.
struct peer {
  endpoint_name name;
  int index = -1; ///< first one in the table
  /// Of compact messages to it; nothing for one in this process, or where they cannot name it.
  std::optional<std::uint32_t> route;

  // By category. Relaxed: counts, which order nothing.
  std::array<std::atomic<std::uint32_t>, 3> outstanding{}; ///< slots of our requests there
  std::array<std::atomic<std::uint32_t>, 3> owed{};        ///< slots of its requests to give back
  std::atomic<std::uint32_t> outstanding_total{0};
  std::atomic<std::uint32_t> owed_total{0};
  std::atomic<const segment_card*> card{nullptr}; ///< null before it has said where
  std::atomic<bool> has_asked{false};
  std::atomic<bool> end_is_told{false}; ///< of its process, to handler 0
  std::mutex mapped_mutex;              ///< with AM_PAR
  mapped_segment mapped;
  std::atomic<std::uint32_t> sent{0}; ///< requests; see message_header::asks_for_slots()
  long_parts parts;                   ///< of its longs
};

} // namespace farcall::am2

/// A bundle: what is polled together.
struct am2_bundle {
  explicit am2_bundle(bool is_shared) noexcept : is_parallel(is_shared) {}

  const bool is_parallel; ///< AM_PAR
  std::atomic<int> event_mask{AM_NOEVENTS};
  std::atomic<std::uint32_t> posts{0};     ///< AM2_PostSema
  std::atomic<std::uint64_t> ends_seen{0}; ///< of nodes; see process
  /// That may be sent without a poll. Relaxed: one thread's, unless AM_PAR.
  std::atomic<unsigned> requests_since_poll{0};
  std::vector<am2_endpoint*> endpoints;
  /// AM_PAR: held to look at `endpoints`, exclusively to change it. AM_SEQ: the program sees to it.
  std::shared_mutex guard;
};

/// An endpoint.
struct am2_endpoint {
  am2_endpoint(am2_bundle& in, farcall::am2::endpoint_name own)
      : name(own), bundle(&in), table(farcall::am2::fewest_translations) {}
  am2_endpoint(const am2_endpoint&) = delete;
  am2_endpoint& operator=(const am2_endpoint&) = delete;

  using handler_table = std::array<std::atomic<amx_handler_fn_t>, farcall::am2::handler_count>;
  using counts = std::array<std::atomic<std::uint64_t>, sizeof(amx_stats_t) / 8>;

  const farcall::am2::endpoint_name name;
  am2_bundle* bundle;
  std::atomic<tag_t> tag{AM_NONE};
  std::atomic<std::byte*> segment{nullptr};
  std::atomic<std::uint64_t> segment_bytes{0};
  farcall::am2::segment_card* card = nullptr; ///< stays when the endpoint is freed: others read it
  std::vector<farcall::am2::translation> table;
  handler_table handlers{}; ///< null: none; of 0, the default one
  std::atomic<amx_handler_prefn_t> before{nullptr};
  std::atomic<amx_handler_postfn_t> after{nullptr};
  counts statistics{}; ///< the words of an amx_stats_t

  /// Once the resources are set; what follows does not change then.
  std::atomic<std::uint32_t> depth{0};
  std::unique_ptr<farcall::am2::peer[]> peers;
  std::size_t peer_count = 0;
  std::vector<farcall::am2::peer*> peer_at; ///< by index in the table; null where nothing is mapped
  std::unordered_map<std::uint64_t, std::size_t> peer_by_name;

  std::atomic<bool> owes{false};       ///< slots to some of its peers
  farcall::am2::message_queue arrived; ///< what could not be run where it was received

  [[nodiscard]] bool is_ready() const noexcept {
    // Acquire; partner: the release store in set_resources().
    return depth.load(std::memory_order_acquire) != 0;
  }
  void set_resources(std::uint32_t outstanding);
  /// After a change of tag or segment.
  void write_card() noexcept;
  /// Null for one that is not in the table.
  [[nodiscard]] farcall::am2::peer* find_peer(farcall::am2::endpoint_name of) const noexcept {
    // In a job's table, node i is entry i.
    farcall::am2::peer* const p = mapped_at(of.node);
    return p != nullptr && p->name == of ? p : find_peer_elsewhere(of);
  }
  /// Null where nothing is mapped, and before the resources are set.
  [[nodiscard]] farcall::am2::peer* mapped_at(int index) const noexcept {
    const auto at = static_cast<std::size_t>(index);
    return at < peer_at.size() ? peer_at[at] : nullptr;
  }

  [[nodiscard]] farcall::am2::peer*
  find_peer_elsewhere(farcall::am2::endpoint_name of) const noexcept;

  /// Adds to word `at` of the statistics.
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

/// The word of an amx_stats_t at which a member begins.
#define AM2_STATISTIC(member) (offsetof(amx_stats_t, member) / sizeof(std::uint64_t))

/// Takes a slot for a request; false when all are taken.
[[nodiscard]] bool take_slot(am2_endpoint& ep, peer& p, category c) noexcept;
/// Slots that have come back; more than there were are ignored.
void give_slots_back(const am2_endpoint& ep, peer& p, const credits& c) noexcept;
/// The slot of one request, at less cost. Not for AM_PAR.
inline void give_one_slot_back(peer& p, category of_request) noexcept {
  std::atomic<std::uint32_t>& of_kind = p.outstanding[std::size_t(of_request)];
  const std::uint32_t before = of_kind.load(std::memory_order_relaxed);
  if (before == 0) return;
  of_kind.store(before - 1, std::memory_order_relaxed);
  p.outstanding_total.store(p.outstanding_total.load(std::memory_order_relaxed) - 1,
                            std::memory_order_relaxed);
}
/// All outstanding ones, by category, for a peer that has ended.
[[nodiscard]] credits take_outstanding(peer& p) noexcept;
/// A request was taken in, and has no reply: its slot is to be given back.
void owe_slot(const am2_endpoint& ep, peer& p, category c) noexcept;
/// What is owed, to go with the next message.
[[nodiscard]] credits take_owed(const am2_endpoint& ep, peer& p) noexcept;

} // namespace farcall::am2
