// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace farcall {

struct node_memory;

/// Values that determine the sizes of a node's memory.
struct memory_sizes {
  std::uint32_t lane_bytes = 0;
  /// Size of the heap; if 0, the heap is as large as the machine's memory, or smaller.
  std::uint64_t heap_bytes = 0;
  std::size_t nodes = 1; ///< number of heaps that one process maps, one heap for each node
  /// True if a process of the job runs in an emulator, where mapping memory is slow.
  bool is_emulated = false;
};

/// Makes a node's memory: the receive segment and the windows. The caller must still format them.
/// Throws error.
[[nodiscard]] node_memory make_memory(node_id node, const memory_sizes& sizes);

/// Returns the number of nodes that can exist at a time in a job that starts with `nodes` nodes.
/// Memory is divided by this number, so that nodes can join later.
[[nodiscard]] constexpr std::size_t planned_nodes(std::size_t nodes) noexcept {
  return std::max<std::size_t>(2 * nodes, 1024);
}

/// Returns the number of lanes in the receive segment of a node. `nodes` is the number of nodes
/// with which the job starts.
[[nodiscard]] std::uint32_t receive_lanes(node_id node, std::size_t nodes) noexcept;

} // namespace farcall
