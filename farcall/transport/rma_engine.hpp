#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/memory/mapped_window.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace farcall {

/// Copies bulk memory between this node and others, past the rings. Addresses are virtual addresses
/// of the peer. All members may be called by several threads at once.
class rma_engine {
 public:
  virtual ~rma_engine() = default;

  /// The memory around `address` of `peer` that can be used directly here; an empty window when it
  /// is not shared with us. Stays as it is as long as the peer is reachable. Never blocks.
  [[nodiscard]] virtual mapped_window window_at(node_id /*peer*/,
                                                std::uint64_t /*address*/) noexcept {
    return {};
  }
  /// Pointer through which [address, address + bytes) of `peer` can be used directly here, or null.
  [[nodiscard]] std::byte* map(node_id peer, std::uint64_t address, std::uint64_t bytes) noexcept {
    const mapped_window w = window_at(peer, address);
    return w.here == nullptr ? nullptr : w.find(address, bytes);
  }

  /// What this end copies to and from memory of `peer` outside windows, its engine can copy, too,
  /// at the same time and from the other end.
  [[nodiscard]] virtual bool copies_from_both_ends(node_id /*peer*/) noexcept { return false; }

  /// Copies of fewer bytes are quicker as messages.
  [[nodiscard]] virtual std::uint64_t threshold() const noexcept { return 0; }

  /// Copies from here to `peer` / from `peer` to here. Blocks for the time of the copy. False when
  /// this RMA engine cannot reach that range (refused by the system, or no such memory there), or
  /// when the peer has kept the copy from going on until `deadline`; then nothing, or a part, was
  /// copied. In any case the memory here is left alone from then on. A copy that no peer can keep
  /// from going on, as one by the processor or a device, is ended or not.
  [[nodiscard]] virtual bool put(node_id peer, std::uint64_t to, const std::byte* from,
                                 std::uint64_t bytes, time_point deadline) noexcept = 0;
  [[nodiscard]] virtual bool get(node_id peer, std::uint64_t from, std::byte* to,
                                 std::uint64_t bytes, time_point deadline) noexcept = 0;

  /// Waits until no put that has ended at its deadline can change the peer's memory any more. Later
  /// copies do so by themselves; who frees memory there asks for it. False when `deadline` passed.
  [[nodiscard]] virtual bool settle(node_id /*peer*/, time_point /*deadline*/) noexcept {
    return true;
  }

  /// After a copy of that range has failed: why, where that is not the fault of the range. Else
  /// empty. Throws node_failed when the peer has failed.
  [[nodiscard]] virtual std::string failure(node_id /*peer*/, std::uint64_t /*address*/,
                                            std::uint64_t /*bytes*/) {
    return {};
  }
};

} // namespace farcall
