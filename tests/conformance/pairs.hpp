// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tests/conformance/conformance.hpp>

#include <cstdint>
#include <memory>

/// Functions that make a pair of nodes, one for each backend.
namespace farcall::conformance {

/// Makes two nodes on one machine.
[[nodiscard]] std::unique_ptr<node_pair> shm_pair(std::uint32_t ring_bytes);

/// Makes a host and a server's target, with unencrypted or encrypted connections.
[[nodiscard]] std::unique_ptr<node_pair> tcp_pair(std::uint32_t ring_bytes);
[[nodiscard]] std::unique_ptr<node_pair> tls_pair(std::uint32_t ring_bytes);

/// Makes a device and the process that owns it.
[[nodiscard]] std::unique_ptr<node_pair> cuda_pair(std::uint32_t ring_bytes);

/// Makes two nodes with pipes between them.
[[nodiscard]] std::unique_ptr<node_pair> pipe_pair(std::uint32_t ring_bytes);

/// Makes one node, which is both sides.
[[nodiscard]] std::unique_ptr<node_pair> self_pair(std::uint32_t ring_bytes);

} // namespace farcall::conformance
