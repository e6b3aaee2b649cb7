#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farcall::mpi {

/// What a node's card says of MPI: all that a peer needs to reach it.
struct address {
  std::uint64_t world = 0; ///< number of the communicator, which its process 0 has chosen by chance
  std::uint64_t key = 0;   ///< peers name it in all that they send
  std::uint32_t rank = 0;  ///< in that communicator
  std::uint32_t tag = 0;   ///< of messages to the node
};

/// Tags of messages are below it. MPI has at least twice as many.
inline constexpr std::uint32_t most_tags = 16384;

[[nodiscard]] std::vector<std::byte> encode(const address& a);
/// Throws malformed_message.
[[nodiscard]] address decode_address(std::span<const std::byte> bytes);

} // namespace farcall::mpi
