// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::mpi {

/// MPI's part of a node's card, with all data that a peer needs to reach the node.
struct address {
  std::uint64_t world = 0; ///< random number of the communicator, which its process 0 has chosen
  std::uint64_t key = 0;   ///< key that peers must put into all messages to the node
  std::uint32_t rank = 0;  ///< rank in that communicator
  std::uint32_t tag = 0;   ///< tag that messages to the node have
};

/// Limit of the tags of messages, which are all lower. The bytes of copies have higher tags. Each
/// MPI library has at least twice as many tags as this limit.
inline constexpr std::uint32_t max_tags = 16384;

[[nodiscard]] std::vector<std::byte> encode(const address& a);
/// Throws malformed_message.
[[nodiscard]] address decode_address(std::span<const std::byte> bytes);

} // namespace farcall::mpi
