// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/held_window.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace farcall {

/// Copies large amounts of memory between this node and others, without the rings of lanes.
/// Addresses are virtual addresses of the peer. Any thread may call any member at any time.
class rma_engine {
 public:
  virtual ~rma_engine() = default;

  /// Returns the mapping of the window of the peer that contains `address`. Returns an empty window
  /// if the peer does not share that memory with this process, or has failed. The result's owner
  /// keeps the window mapped after the peer's failure, and after the end of this engine. Never
  /// waits for the peer.
  [[nodiscard]] virtual held_window window_at(node_id /*peer*/,
                                              std::uint64_t /*address*/) noexcept {
    return {};
  }
  /// Returns a pointer by which this process can use the peer's memory [address, address + bytes)
  /// in place, valid as long as the result's owner. Returns null if the peer does not share all of
  /// it with this process.
  [[nodiscard]] held_bytes map(node_id peer, std::uint64_t address, std::uint64_t bytes) noexcept {
    held_window w = window_at(peer, address);
    std::byte* const here = w.owner == nullptr ? nullptr : w.range.find(address, bytes);
    return here == nullptr ? held_bytes{} : held_bytes{here, std::move(w.owner)};
  }

  /// True if the peer's engine can also copy from and to this process's memory outside windows.
  /// Both ends can then make parts of one copy at the same time.
  [[nodiscard]] virtual bool copies_from_both_ends(node_id /*peer*/) noexcept { return false; }

  /// Returns the smallest number of bytes for which this engine is quicker than messages of a lane.
  [[nodiscard]] virtual std::uint64_t threshold() const noexcept { return 0; }

  /// put() copies from this process to `peer`, and get() copies from `peer` to this process. Both
  /// block until the copy has ended, and return true if it is complete. They return false if the
  /// system refuses, if the peer is gone or has no such memory, or if the peer has delayed the copy
  /// until `deadline`. In these cases some of the bytes, or none, were copied. After the return, no
  /// code accesses the memory of this process any more. If a processor or a device makes the copy,
  /// no peer can delay it, and the deadline has no effect.
  [[nodiscard]] virtual bool put(node_id peer, std::uint64_t to, const std::byte* from,
                                 std::uint64_t bytes, time_point deadline) noexcept = 0;
  [[nodiscard]] virtual bool get(node_id peer, std::uint64_t from, std::byte* to,
                                 std::uint64_t bytes, time_point deadline) noexcept = 0;

  /// Waits until no put that its deadline has ended can change the peer's memory any more. Called
  /// before the peer's memory is freed. Other callers need no such call, because later copies wait
  /// by themselves. Returns false if `deadline` passes first.
  [[nodiscard]] virtual bool settle(node_id /*peer*/, time_point /*deadline*/) noexcept {
    return true;
  }

  /// Called after a copy of that range has failed. If the engine cannot reach the range, returns an
  /// empty text. Otherwise returns the reason for the failure. Throws node_failed if the peer has
  /// failed.
  [[nodiscard]] virtual std::string failure(node_id /*peer*/, std::uint64_t /*address*/,
                                            std::uint64_t /*bytes*/) {
    return {};
  }
};

} // namespace farcall
