// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Transport of messages and copies over UCP, the protocol layer of UCX (openucx.org). It uses any
/// network or shared memory by which UCX can connect two processes. The job detects peers that have
/// died; UCX also detects them if its transport can.
namespace farcall::ucx {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;
  std::uint32_t ring_bytes = 0;
  std::string machine; ///< see card::machine
  std::span<doorbell> doorbells;
  std::vector<memory_window> windows; ///< memory of this node that peers may copy
};

/// Makes the transport. Throws error if UCX cannot be used.
[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::ucx
