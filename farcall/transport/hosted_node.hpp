#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/transport.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace farcall {

/// What a node without a process is made from.
struct hosting_site {
  node_id self = 0; ///< the process that hosts it
  node_id node = 1;
  std::uint32_t lane_bytes = 0;
  std::uint64_t heap_bytes = 0;  ///< most memory for its heap; 0: all that it has
  std::span<doorbell> doorbells; ///< of the process; outlive the node
};

/// A node that is no process of its own: the process that made it runs it and speaks for it. Its
/// transport leads there and nowhere else, and only from this process.
class hosted_node : public transport {
 public:
  /// Adds to the node's own card what it is: architecture, processors.
  virtual void describe_node(card& its) const = 0;

  /// Readable once the node has failed; failure() then says why.
  [[nodiscard]] virtual int failure_fd() const noexcept = 0;
  [[nodiscard]] virtual std::string failure() const = 0;

  /// No more messages. False when what runs there has not ended until `deadline` and was left
  /// behind.
  virtual bool stop(time_point deadline) noexcept = 0;
};

} // namespace farcall
