// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <chrono>
#include <vector>

namespace farcall {

/// Decides when the host sends heartbeats to its targets, and counts for each target the heartbeats
/// without a reply. The age of a target's last message is not used, because a host that was stopped
/// for a while has read no messages in that time, and would take all targets for silent. Used by
/// one thread.
class heartbeats {
 public:
  /// Number of heartbeats that are sent in one peer timeout.
  static constexpr unsigned heartbeats_per_timeout = 4;

  /// Makes the schedule. If `peer_timeout` is zero, no heartbeats are sent.
  explicit heartbeats(std::chrono::milliseconds peer_timeout);

  /// Makes the first heartbeat due one interval after `now`.
  void begin(time_point now) noexcept;
  /// Returns the time at which the next heartbeat is due, or no_deadline if none is.
  [[nodiscard]] time_point next() const noexcept { return next_; }
  /// If a heartbeat is due at `now`, schedules the next one an interval later, and returns true.
  [[nodiscard]] bool is_due(time_point now) noexcept;

  /// Adds one to the number of heartbeats that the node has missed; note_message() resets this
  /// number. Returns true if the caller should send the heartbeat, and false if the node has sent
  /// no message for the whole peer timeout.
  [[nodiscard]] bool count(node_id node);
  /// Resets the number of heartbeats that the node has missed. Call when a message of the node has
  /// arrived.
  void note_message(node_id node) noexcept;

 private:
  std::chrono::milliseconds interval_; ///< 0 if disabled
  time_point next_ = no_deadline;
  /// Number of heartbeats that the latest node of a place has missed.
  struct missed_count {
    node_id node = no_node;
    unsigned missed = 0;
  };
  std::vector<missed_count> missed_; ///< by place
};

} // namespace farcall
