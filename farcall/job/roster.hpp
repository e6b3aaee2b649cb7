#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// How a node is reached. Both ends come to the same result.
struct route {
  transport* via = nullptr; ///< null: not at all
  std::string reason;       ///< why so, or why not
};

enum class node_state : std::uint8_t {
  absent, ///< has not joined yet
  joined, ///< its card is here
  failed, ///< takes no more part
};

/// Who is in a job: the nodes' cards, the routes to them, and what has become of each. A table and
/// nothing else; whoever fills it knows where the facts come from. Cards and routes are filled by
/// one thread before others read; states belong to the thread that watches the nodes.
class roster {
 public:
  roster() = default;
  roster(node_id self, std::size_t nodes) : self_(self), rows_(nodes) {}

  [[nodiscard]] node_id self() const noexcept { return self_; }
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  /// The node has joined. Throws malformed_message for the card of a node that does not exist.
  void add(card c);
  /// The node takes no more part. False when that was known.
  bool fail(node_id node);

  [[nodiscard]] const card& card_of(node_id node) const { return rows_.at(node).its; }
  [[nodiscard]] const route& route_to(node_id node) const { return rows_.at(node).route; }
  [[nodiscard]] node_state state_of(node_id node) const { return rows_.at(node).state; }
  [[nodiscard]] bool has_failed(node_id node) const { return state_of(node) == node_state::failed; }

  /// Chooses for each node the transport that reaches it at the least cost, the first of several,
  /// and admits the node there. Once all have joined. Throws error when a transport does.
  void choose_routes(std::span<transport* const> transports);

 private:
  struct row {
    card its;
    farcall::route route;
    node_state state = node_state::absent;
  };

  [[nodiscard]] static route choose(const card& to, std::span<transport* const> transports);

  node_id self_ = 0;
  std::vector<row> rows_;
};

} // namespace farcall
