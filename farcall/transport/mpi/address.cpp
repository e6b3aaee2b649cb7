// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/mpi/address.hpp>

#include <cstring>

namespace farcall::mpi {

static_assert(sizeof(address) == 24);

std::vector<std::byte> encode(const address& a) {
  std::vector<std::byte> bytes(sizeof a);
  std::memcpy(bytes.data(), &a, sizeof a);
  return bytes;
}

address decode_address(std::span<const std::byte> bytes) {
  address a;
  if (bytes.size() != sizeof a) {
    throw malformed_message("a node's MPI address has another length than it should");
  }
  std::memcpy(&a, bytes.data(), sizeof a);
  if (a.rank > 0x7fffffff || a.tag == 0 || a.tag >= max_tags) {
    throw malformed_message("a node's MPI address has an impossible rank or tag");
  }
  return a;
}

} // namespace farcall::mpi
