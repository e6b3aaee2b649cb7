#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>

namespace farcall::detail {

struct job_state;

/// A copy in one direction between memory here and memory of a node.
struct transfer {
  job_state* job;
  node_id peer;
  std::uint64_t there;
  std::byte* here;
  std::size_t bytes;
  bool is_put;
  time_point deadline;

  [[nodiscard]] transfer part(std::size_t offset, std::size_t length) const noexcept {
    return {job, peer, there + offset, here + offset, length, is_put, deadline};
  }
  [[nodiscard]] bool is_late() const noexcept {
    return deadline != no_deadline && clock::now() >= deadline;
  }
  /// What to throw then.
  [[nodiscard]] std::exception_ptr lateness() const noexcept;
};

/// RMA by calls, which the peer's program serves: where no memory is shared and the system allows
/// nothing better. Pipelined; done on return. Throws. The peer works on copies of the bytes, so
/// that none touches the memory here after a deadline.
void emulated_rma(const transfer& t);

} // namespace farcall::detail
