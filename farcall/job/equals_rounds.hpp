// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace farcall {

/// Counts, on the host, the rounds in which a job of equals ends. A node is quiet in a round once
/// it has nothing more to do and has reported this to the host. A round ends once every node has
/// been quiet in it. If none of the nodes had sent anything since the previous round, the job is
/// over; otherwise the next round begins. Used by one thread.
class equals_rounds {
 public:
  enum class outcome : std::uint8_t {
    open,       ///< at least one node is not quiet in this round yet
    next_round, ///< round() has begun
    job_over,
  };

  /// Makes the rounds of a job whose nodes have the numbers 0 to `nodes` - 1.
  explicit equals_rounds(std::size_t nodes = 1) : nodes_(nodes) {}

  /// Returns the number of the current round. The first round has the number 1.
  [[nodiscard]] std::uint32_t round() const noexcept { return round_; }

  /// Records that the node is quiet in the round `round`. `was_active` is true if the node has sent
  /// something since the previous round. Throws malformed_message if `round` is not the current
  /// round.
  void note_quiet(node_id node, std::uint32_t round, bool was_active);
  /// Records that the node has ended. Later rounds end without a report of this node.
  void leave(node_id node);

  /// Ends the current round if all nodes that have not ended are quiet in it. Returns `open` if the
  /// round has not ended.
  [[nodiscard]] outcome end_round();

 private:
  std::size_t nodes_;
  std::uint32_t round_ = 1;
  bool is_over_ = false;
  /// The nodes that are quiet in the current round. The value is true if the node has sent
  /// something since the previous round.
  std::map<node_id, bool> was_active_;
  std::set<node_id> gone_;
};

} // namespace farcall
