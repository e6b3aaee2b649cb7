// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/transport.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace farcall {

/// Parameters of a node without a process.
struct hosting_site {
  node_id self = 0; ///< number of the node whose process hosts this one
  node_id node = 1;
  std::uint32_t lane_bytes = 0;
  std::uint64_t heap_bytes = 0;  ///< limit of the node's heap; 0 for all memory of its device
  std::span<doorbell> doorbells; ///< doorbells of the hosting process, which outlive the node
};

/// A node without a process, such as a device, and the transport to that node. The process that has
/// made the node runs it and acts for it. Only that process can reach the node, and this transport
/// reaches only that node.
class hosted_node : public transport {
 public:
  /// Adds the node's architecture and number of processors to its card.
  virtual void describe_node(card& its) const = 0;

  /// Returns a descriptor that becomes readable when the node has failed. After that, failure()
  /// returns the reason.
  [[nodiscard]] virtual int failure_fd() const noexcept = 0;
  [[nodiscard]] virtual std::string failure() const = 0;

  /// Stops the node; afterwards no messages reach it. Returns false if the node's work has not
  /// ended by `deadline`. That work is then left running.
  virtual bool stop(time_point deadline) noexcept = 0;
};

} // namespace farcall
