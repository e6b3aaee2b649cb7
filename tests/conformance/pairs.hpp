#pragma once

#include <tests/conformance/conformance.hpp>

#include <cstdint>
#include <memory>

/// Pairs of nodes of the backends that live in memory.
namespace farcall::conformance {

/// Two nodes of one machine.
[[nodiscard]] std::unique_ptr<node_pair> shm_pair(std::uint32_t ring_bytes);

/// A node and itself.
[[nodiscard]] std::unique_ptr<node_pair> self_pair(std::uint32_t ring_bytes);

} // namespace farcall::conformance
