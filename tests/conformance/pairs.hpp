#pragma once

#include <tests/conformance/conformance.hpp>

#include <cstdint>
#include <memory>

/// Pairs of nodes, for each backend.
namespace farcall::conformance {

/// Two nodes of one machine.
[[nodiscard]] std::unique_ptr<node_pair> shm_pair(std::uint32_t ring_bytes);

/// A server's target and its host, unencrypted and encrypted.
[[nodiscard]] std::unique_ptr<node_pair> tcp_pair(std::uint32_t ring_bytes);
[[nodiscard]] std::unique_ptr<node_pair> tls_pair(std::uint32_t ring_bytes);

/// A device and the process that owns it.
[[nodiscard]] std::unique_ptr<node_pair> cuda_pair(std::uint32_t ring_bytes);

/// Two nodes with pipes between them.
[[nodiscard]] std::unique_ptr<node_pair> pipe_pair(std::uint32_t ring_bytes);

/// A node and itself.
[[nodiscard]] std::unique_ptr<node_pair> self_pair(std::uint32_t ring_bytes);

} // namespace farcall::conformance
