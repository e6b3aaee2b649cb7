// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace farcall {

/// A message in which the host sends the card of the node `of` to the node `to`, so that `to` can
/// use `of`.
struct introduction {
  node_id to = no_node;
  node_id of = no_node;
  /// True if `of` already has the card of `to`, and serves lanes that `to` opens.
  bool knows_receiver = false;
  /// True if the host must send the memory of `of` before this message, in case that `to` can map
  /// it.
  bool brings_memory = false;

  [[nodiscard]] bool operator==(const introduction&) const = default;
};

/// State of a pair (this node, other node): how far the host has introduced the other node to this
/// node.
enum class peer_state : std::uint8_t {
  unknown,
  /// This node has asked for the other node. The host first introduces this node to the other node,
  /// and afterwards the other node to this node.
  waiting,
  /// The host has sent the other node's card to this node, before the other node has this node's
  /// card.
  told_first,
  /// The host has sent the other node's card to this node, after the other node got this node's
  /// card.
  told_second,
  known, ///< this node has confirmed that it has the card, or one node has no process
};

/// Introduces targets to each other: decides, on the host, which message the host sends next.
/// Stores a state for each ordered pair of nodes. The following table shows what happens when the
/// node A asks for the node B:
///
///     ask(A, B)      to B: the card of A             (A, B) waiting,     (B, A) told_first
///     confirm(B, A)  to A: the card of B             (A, B) told_second, (B, A) known
///     confirm(A, B)  to B: A knows you               (A, B) known,       (B, A) known
///
/// Each line names the function that the host calls, the message that the function returns for the
/// host to send, and the resulting states of the pairs. B gets the card of A first, because
/// messages of A may arrive at B as soon as A has the card of B. Used by one thread.
class introductions {
 public:
  /// Handles the request of `asker` to use the node `other`. A repeated request shows that a
  /// message was lost; in that case returns again the message that `other` has not confirmed.
  [[nodiscard]] std::optional<introduction> ask(node_id asker, node_id other);
  /// Handles the request of `asker` to use the node `other`, which has no process, and so confirms
  /// nothing.
  [[nodiscard]] std::optional<introduction> ask_for_hosted(node_id asker, node_id other);
  /// Handles the confirmation of `node` that it has the card of the node `other`, and serves lanes
  /// that `other` opens.
  [[nodiscard]] std::optional<introduction> confirm(node_id node, node_id other);
  /// Removes all states of a node that has ended. Returns the nodes that had a state with this
  /// node, in the order of their numbers.
  std::vector<node_id> forget(node_id node);

  [[nodiscard]] peer_state state_of(node_id node, node_id other) const;

 private:
  /// The states of all pairs: `states_[A][B]` is the state of the pair (A, B). It exists if and
  /// only if the state of (B, A) exists.
  std::map<node_id, std::map<node_id, peer_state>> states_;
};

} // namespace farcall
