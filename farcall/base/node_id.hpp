// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>

namespace farcall {

/// Number of a node in its job. The host is node 0; targets have the numbers from 1. A job gives
/// each number once. The low 16 bits of a number are the *place* of the node, and the other bits
/// its *epoch*. Tables of nodes are indexed by the place. When a node has ended, a later node may
/// get its place, with the next epoch. Up to 65,536 nodes have epoch 0, so that their numbers are
/// their places.
using node_id = std::uint32_t;

/// Exclusive upper bound of the places of nodes in every job. This is also the number of nodes that
/// a job can have at a time.
inline constexpr std::uint32_t max_node_places = 65536;
/// Last epoch that a job gives. Programs may therefore store node numbers as signed integers.
inline constexpr std::uint32_t last_node_epoch = 32767;

/// Returns the place of a node in tables of nodes.
[[nodiscard]] constexpr std::uint32_t place_of(node_id node) noexcept {
  return node % max_node_places;
}
/// Returns the epoch of a node: how many nodes have had its place before.
[[nodiscard]] constexpr std::uint32_t epoch_of(node_id node) noexcept {
  return node / max_node_places;
}
/// Returns the number of the node that gets the place of `node` next.
[[nodiscard]] constexpr node_id successor_of(node_id node) noexcept {
  return node + max_node_places;
}

/// Number of the host in every job.
inline constexpr node_id host_id = 0;

/// Value that means no node, for instance in an error that concerns no node.
inline constexpr node_id no_node = UINT32_MAX;

/// Node for which the calling thread acts instead of the process's own node; no_node if there is
/// none. Defined in the library, so that all modules of a program share it, even with hidden
/// visibility.
extern constinit thread_local node_id acting_node;

} // namespace farcall
