// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/copy/copy_plan.hpp>
#include <farcall/transport/rma_engine.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>

namespace farcall::detail {

struct copy_state;

/// A copy in one direction between memory of this node and memory of another node.
struct transfer {
  copy_state* copies;
  node_id peer;
  std::uint64_t there;
  std::byte* here;
  std::size_t bytes;
  bool is_put;
  time_point deadline;
  copy_end end = copy_end::remote; ///< kind of the memory on the other node
  rma_engine* rma = nullptr;       ///< RMA engine that reaches the peer; null if there is none
  copy_plan plan{};

  [[nodiscard]] transfer part(std::size_t offset, std::size_t length) const noexcept {
    transfer some = *this;
    some.there += offset;
    some.here += offset;
    some.bytes = length;
    return some;
  }
  [[nodiscard]] bool is_late() const noexcept {
    return deadline != no_deadline && clock::now() >= deadline;
  }
  /// Returns the exception to throw if the copy has missed its deadline.
  [[nodiscard]] std::exception_ptr lateness() const noexcept;
};

/// Makes the copy by calls, which the peer's program serves, or through a ring if `way` is by_ring.
/// The copy is done on return. Calls carry copies of the bytes, so that a peer that is late does
/// not access the caller's memory after the deadline. Throws what the calls throw, and error for
/// memory that cannot be used.
void emulated_rma(const transfer& t, copy_way way);

} // namespace farcall::detail
