// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <cstdint>
#include <vector>

namespace farcall::am {

class engine;
class pending_call;

/// Waits until calls have begun on their targets. For this it sends a *fence*, a call that does
/// nothing, behind the other calls of each lane, and waits for its reply.
class settling {
 public:
  explicit settling(engine& owner) noexcept : owner_(owner) {}

  /// Waits, at most until `deadline`, until all queued stops are sent, and until peers have begun
  /// the calls that this node has made in lanes with a lane driver. Waits for all peers, or only
  /// for the node `only`. Call before a peer is told by other means to end, because the peer would
  /// miss calls whose bytes are still on their way. Lanes without a lane driver need no wait,
  /// because the bytes of their calls arrive at once.
  void drain(time_point deadline, node_id only = no_node) noexcept;

  /// Waits, at most until `deadline`, until all requests that this node has received were served to
  /// their end, and until peers have begun all calls that this node has made. Returns false if this
  /// node has sent no request since the last settle().
  ///
  /// Used by jobs whose nodes end together. The nodes repeat rounds in which each of them calls
  /// settle(), and begin a round only after all nodes have ended the previous round. If all nodes
  /// return false in a round, no call is in flight any more.
  [[nodiscard]] bool settle(time_point deadline);

 private:
  /// Takes a pending call for a fence in each lane for which `wants` is true.
  template <class Wants>
  [[nodiscard]] std::vector<pending_call*> take_fences(const Wants& wants) noexcept;
  /// Sends the fences and waits for their replies, at most until `deadline`.
  void send(std::vector<pending_call*> fences, time_point deadline) noexcept;
  /// Sends a fence and sets `sent` to the ring position behind it. If the fence cannot be sent,
  /// gives its pending call back and returns false.
  [[nodiscard]] bool send(pending_call& fence, time_point deadline, std::uint64_t& sent) noexcept;

  engine& owner_;
};

} // namespace farcall::am
