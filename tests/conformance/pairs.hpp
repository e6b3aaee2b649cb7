// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <tests/conformance/conformance.hpp>

#include <cstdint>
#include <memory>

/// Functions that make a pair of nodes, one for each backend.
namespace farcall::conformance {

/// Number of the second node in a pair whose second node has the place of nodes that have ended.
inline constexpr node_id later_node = 1 + 3 * max_node_places;

/// Makes two nodes on one machine.
[[nodiscard]] std::unique_ptr<node_pair> shm_pair(std::uint32_t ring_bytes);
/// Makes a pair like shm_pair(), with later_node as the second node.
[[nodiscard]] std::unique_ptr<node_pair> later_shm_pair(std::uint32_t ring_bytes);

/// Makes a host and a server's target, with unencrypted or encrypted connections.
[[nodiscard]] std::unique_ptr<node_pair> tcp_pair(std::uint32_t ring_bytes);
[[nodiscard]] std::unique_ptr<node_pair> tls_pair(std::uint32_t ring_bytes);
/// Makes a pair like tls_pair(), or tcp_pair() in a build without TLS, with later_node as the
/// second node.
[[nodiscard]] std::unique_ptr<node_pair> later_tcp_pair(std::uint32_t ring_bytes);

/// Makes a device and the process that owns it.
[[nodiscard]] std::unique_ptr<node_pair> cuda_pair(std::uint32_t ring_bytes);

/// Makes two nodes with pipes between them.
[[nodiscard]] std::unique_ptr<node_pair> pipe_pair(std::uint32_t ring_bytes);

/// Makes one node, which is both sides.
[[nodiscard]] std::unique_ptr<node_pair> self_pair(std::uint32_t ring_bytes);

} // namespace farcall::conformance
