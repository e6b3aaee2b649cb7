// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/copy/transfer.hpp>

#include <cstddef>
#include <cstdint>

/// Decides how a copy is made. The table in docs/copies.md lists all cases.
namespace farcall::detail {

/// Kind of the memory at one end of a copy, from the point of view of this node, which plans the
/// copy.
enum class copy_end : std::uint8_t {
  own,     ///< memory of this node
  mapped,  ///< memory of another node that is mapped into this process
  machine, ///< memory of another node on this machine that is not mapped into this process
  remote,  ///< memory of a node that shares no memory with this one
  domain,  ///< memory that this process allocates for another node, such as a device
           ///< (memory_domain)
};

/// Strategy of a copy.
enum class copy_way : std::uint8_t {
  none,           ///< the copy fails
  in_place,       ///< memcpy by the caller
  in_pieces,      ///< memcpy by the copy thread, and by threads that wait for the copy
  by_rma,         ///< RMA engine of this node
  by_both_ends,   ///< RMA engines of both nodes, each of which takes some of the chunks
                  ///< (chunk_offer)
  by_ring,        ///< memcpy by both nodes, in and out of slots in shared memory (copy_ring)
  by_messages,    ///< calls that carry the bytes
  by_destination, ///< call to the destination's node, which then fetches the bytes from the
                  ///< source's node
  by_host,        ///< this node gets the bytes into its own memory, and puts them from there
};

/// Value of rma_threshold if no RMA engine reaches the peer.
inline constexpr std::uint64_t no_rma = UINT64_MAX;

/// Facts that decide how a copy is made.
struct copy_facts {
  copy_end from;
  copy_end to;
  std::uint64_t bytes;
  std::uint64_t rma_threshold = no_rma; ///< threshold of the RMA engine that reaches the peer
  bool is_rma_mutual = false;           ///< the peer's RMA engine also reaches memory of this node
  bool has_deadline = false;
  bool is_sync = false; ///< true if the caller waits for the copy in any case, so that the copy
                        ///< thread is not needed
};

/// Plan by which a copy is made.
struct copy_plan {
  copy_way way;
  copy_way rival;    ///< second strategy, which is used in place of `way` if it takes less time
                     ///< (way_choice); equal to `way` if there is no second strategy
  copy_way fallback; ///< strategy that is used if the RMA engine refuses the memory
  bool is_on_thread; ///< true if the copy thread makes the copy
};

/// Size in bytes from which a copy may be faster with the peer's help, for instance by a ring, than
/// by the RMA engine of one end.
inline constexpr std::uint64_t min_helped_copy = std::uint64_t{128} << 10;
/// Least size of a copy in bytes from which the RMA engines of both ends take less time than one
/// engine.
inline constexpr std::uint64_t min_copy_by_both_ends = std::uint64_t{512} << 10;
/// Size in bytes from which a copy uses the RMA engines of both ends, and no ring is tried. At such
/// sizes, the engines take half of a ring's time on huge pages, and at most a tenth more than a
/// ring on small pages.
inline constexpr std::uint64_t min_copy_without_ring = std::uint64_t{16} << 20;
/// Size in bytes from which a copy by a ring is faster than a copy by messages. Used if the RMA
/// engine refuses the memory.
inline constexpr std::uint64_t min_pipelined_copy = std::uint64_t{512} << 10;

namespace copy_plan_detail {

[[nodiscard]] constexpr bool is_here(copy_end end) noexcept {
  return end == copy_end::own || end == copy_end::mapped;
}

/// Plans a copy between memory of this node and memory of another node on this machine that is not
/// mapped.
[[nodiscard]] constexpr copy_plan plan_on_machine(const copy_facts& f, bool is_on_thread) noexcept {
  using enum copy_way;
  // A copy with a deadline is made without the peer's help, because a helping peer might use the
  // caller's memory after the deadline.
  const copy_way fallback =
      f.bytes >= min_pipelined_copy && !f.has_deadline ? by_ring : by_messages;
  if (f.bytes < f.rma_threshold) return {fallback, fallback, fallback, is_on_thread};
  if (!f.is_rma_mutual || f.has_deadline || f.bytes < min_helped_copy)
    return {by_rma, by_rma, fallback, is_on_thread};
  const copy_way way = f.bytes < min_copy_by_both_ends ? by_rma : by_both_ends;
  return {way, f.bytes < min_copy_without_ring ? by_ring : way, fallback, is_on_thread};
}

} // namespace copy_plan_detail

/// Returns how the copy is made. Never fails.
[[nodiscard]] constexpr copy_plan plan_copy(const copy_facts& f) noexcept {
  using enum copy_way;
  using copy_plan_detail::is_here;
  const bool is_from_domain = f.from == copy_end::domain;
  const bool is_to_domain = f.to == copy_end::domain;
  const bool is_long = f.bytes >= async_copy_from && !f.is_sync;
  if (f.from != copy_end::own && f.to != copy_end::own) {
    if (!is_from_domain && !is_to_domain) return {by_destination, by_destination, none, false};
    // The CPU cannot access memory of a domain, so a copy between two domains cannot be made by
    // messages.
    if (is_from_domain && is_to_domain) return {by_rma, by_rma, none, is_long};
    if (!is_here(f.from) && !is_here(f.to)) return {by_host, by_host, none, false};
  }
  if (is_here(f.from) && is_here(f.to)) {
    const copy_way way = is_long ? in_pieces : in_place;
    return {way, way, none, is_long};
  }
  const copy_end peer = is_here(f.from) ? f.to : f.from;
  if (peer == copy_end::machine) return copy_plan_detail::plan_on_machine(f, is_long);
  const copy_way fallback = peer == copy_end::domain ? none : by_messages;
  const copy_way way = f.bytes < f.rma_threshold ? by_messages : by_rma;
  return {way, way, fallback, is_long};
}

} // namespace farcall::detail
