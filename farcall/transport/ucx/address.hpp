#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::ucx {

/// What a node's card says of UCX: all that a peer needs to reach it.
struct address {
  std::uint64_t key = 0; ///< peers name it in all that they send
  /// Of its network namespace; 0: it cannot be told. Where it is equal, shared memory reaches it.
  std::uint64_t place = 0;
  bool has_network = false;          ///< it can be reached from elsewhere
  std::span<const std::byte> worker; ///< of ucp_worker_get_address
};

/// This process's.
[[nodiscard]] std::uint64_t own_place();

[[nodiscard]] std::vector<std::byte> encode(const address& a);
/// Throws malformed_message. The result points into `bytes`.
[[nodiscard]] address decode_address(std::span<const std::byte> bytes);

} // namespace farcall::ucx
