#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
/// nothing else; whoever fills it knows where the facts come from. Any thread may read; one at a
/// time adds nodes.
class roster {
 public:
  roster() : roster(0, 0) {}
  /// For nodes with numbers below `capacity`, which is at least `nodes`.
  roster(node_id self, std::size_t nodes, std::size_t capacity = 0);
  roster(roster&& other) noexcept;
  roster& operator=(roster&& other) noexcept;

  [[nodiscard]] node_id self() const noexcept { return self_; }
  /// One more than the highest number that a node has, or had.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t capacity() const noexcept { return rows_.capacity(); }

  /// The job has had so many nodes by now, if it had fewer.
  void grow(std::size_t nodes) noexcept;

  /// The node has joined. One that does not know us yet is not known here, only admitted, until it
  /// is added again. Throws malformed_message for a number that no node can have.
  void add(card c, bool knows_us = true);
  /// The node takes no more part. False when that was known.
  bool fail(node_id node);

  /// The node's card and route are here.
  [[nodiscard]] bool knows(node_id node) const noexcept;

  /// Throw error for a node that is not known.
  [[nodiscard]] const card& card_of(node_id node) const { return row_of(node).its; }
  [[nodiscard]] const route& route_to(node_id node) const { return row_of(node).route; }
  /// The number is below the capacity.
  [[nodiscard]] node_state state_of(node_id node) const noexcept {
    // Relaxed: it orders nothing.
    return states_[node].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_failed(node_id node) const noexcept {
    return state_of(node) == node_state::failed;
  }

  /// The transport that reaches the node at the least cost, the first of several.
  [[nodiscard]] static route choose(const card& to, std::span<transport* const> transports);

  /// Chooses for each node that has no route yet a transport, and admits the node there. Then, if
  /// the node knows us, tells `joined` of it, before it is known here. Throws error when a
  /// transport does.
  void choose_routes(std::span<transport* const> transports,
                     const std::function<void(const card&, const route&)>& joined = {});

 private:
  struct row {
    card its;
    farcall::route route;
    bool is_admitted = false;
    bool knows_us = false;
    std::atomic<bool> has_route{false};
  };

  [[nodiscard]] const row& row_of(node_id node) const;
  node_id self_;
  std::atomic<std::size_t> size_;
  node_table<row> rows_;
  std::unique_ptr<std::atomic<node_state>[]> states_;
};

} // namespace farcall
