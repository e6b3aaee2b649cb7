// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/control_messages.hpp>

#include <cstdint>
#include <vector>

namespace farcall {

struct node_memory;

/// File descriptors and sizes that a process needs in order to map the memory of another node on
/// its machine.
struct memory_files {
  std::uint64_t receive_segment_bytes = 0;
  std::vector<std::uint64_t> window_bytes;
  /// File descriptors, first of the receive segment, then of each window. Empty if the descriptors
  /// were closed.
  std::vector<unique_fd> files;

  /// Moves the file descriptors out of `memory`. The memory stays mapped in this process.
  [[nodiscard]] static memory_files take(node_memory& memory);
  /// Duplicates the file descriptors of the memory. Throws error.
  [[nodiscard]] static memory_files copy(const node_memory& memory);

  /// Returns the message with which the descriptors are sent to another process.
  [[nodiscard]] messages::memory message(node_id node) const;
  [[nodiscard]] std::vector<int> descriptors() const;
};

} // namespace farcall
