// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::ucx {

/// UCX's part of a node's card, with all data that a peer needs to reach the node.
struct address {
  std::uint64_t key = 0; ///< key that peers must put into all messages to the node
  /// Hash of the node's network namespace, or 0 if unknown. Nodes with equal hashes reach each
  /// other through shared memory.
  std::uint64_t place = 0;
  bool has_network = false;          ///< true if other machines can reach the node
  std::span<const std::byte> worker; ///< from ucp_worker_get_address
};

/// Returns the value of `place` for this process.
[[nodiscard]] std::uint64_t own_place();

[[nodiscard]] std::vector<std::byte> encode(const address& a);
/// Decodes an address. The result refers to memory in `bytes`. Throws malformed_message.
[[nodiscard]] address decode_address(std::span<const std::byte> bytes);

} // namespace farcall::ucx
