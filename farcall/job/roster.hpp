// SPDX-License-Identifier: Apache-2.0
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
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// Route to a node. The two nodes of a pair choose the same transport for both directions.
struct route {
  transport* via = nullptr; ///< transport to the node; null if the node cannot be reached
  /// Reason why this transport was chosen, or why the node cannot be reached.
  std::string reason;
};

enum class node_state : std::uint8_t {
  absent, ///< has not joined yet
  joined, ///< its card is here
  failed, ///< takes no more part
};

/// Table of a job's nodes with their cards, the routes to them, and their states. The owner of the
/// table fills it from messages; the table itself sends and receives nothing. Any thread may read
/// the table. Only one thread at a time may add nodes.
class roster {
 public:
  roster() : roster(0, 0) {}
  /// Makes a table for nodes whose places are below `capacity`, which must be at least `nodes`.
  roster(node_id self, std::size_t nodes, std::size_t capacity = 0);
  roster(roster&& other) noexcept;
  roster& operator=(roster&& other) noexcept;

  [[nodiscard]] node_id self() const noexcept { return self_; }
  /// Returns the highest place that is or was in use, plus one.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t capacity() const noexcept { return rows_.capacity(); }
  /// Returns true if a node of the job can have this number.
  [[nodiscard]] bool can_exist(node_id node) const noexcept {
    return place_of(node) < capacity() && epoch_of(node) <= last_node_epoch;
  }

  /// Returns how many nodes have joined and have not failed, this one included.
  [[nodiscard]] std::size_t live() const noexcept { return live_.load(std::memory_order_relaxed); }
  /// Returns the nodes for which knows() is true, in the order of their places. Leaves out nodes
  /// whose place another node has got.
  [[nodiscard]] std::vector<node_id> known() const;

  /// Raises size() so that it includes the place of `node`, up to the capacity. Never lowers
  /// size().
  void grow_to(node_id node) noexcept;
  /// Raises size() to `nodes`, or to the capacity if that is less. Never lowers size().
  void grow(std::size_t nodes) noexcept;

  /// Adds a node that has joined. `knows_us` says whether this other node already has this
  /// process's card. If not, this process lets the node connect, but does not use it until the node
  /// is added again. Throws malformed_message for a number that no node can have.
  void add(card c, bool knows_us = true);
  /// Marks the node as failed. Returns false if it was marked before, or if another node has got
  /// its place. Throws malformed_message for a number that no node can have.
  bool fail(node_id node);

  /// Returns true if the table contains the node's card and the route to the node.
  [[nodiscard]] bool knows(node_id node) const noexcept;

  /// Returns the latest node in the table that has, or had, the place of `node`; no_node if there
  /// is none.
  [[nodiscard]] node_id latest_at_place_of(node_id node) const noexcept {
    return rows_.latest_at_place_of(node);
  }

  /// card_of() returns the node's card, and route_to() the route to the node. Both throw error for
  /// an unknown node.
  [[nodiscard]] const card& card_of(node_id node) const { return row_of(node).its; }
  [[nodiscard]] const route& route_to(node_id node) const { return row_of(node).route; }
  /// Returns the node's state, which is `failed` if another node has got its place. The place of
  /// `node` must be below the capacity.
  [[nodiscard]] node_state state_of(node_id node) const noexcept {
    // Relaxed: it orders nothing.
    const place_state now = state(node).load(std::memory_order_relaxed);
    if (now.epoch == epoch_of(node)) return now.state;
    return now.epoch > epoch_of(node) ? node_state::failed : node_state::absent;
  }
  [[nodiscard]] bool has_failed(node_id node) const noexcept {
    return state_of(node) == node_state::failed;
  }

  /// Chooses a route to a node: over the cheapest of those transports that can reach it, and over
  /// the first one if several cost the same.
  [[nodiscard]] static route choose(const card& to, std::span<transport* const> transports);

  /// For each node that has no route yet, chooses a transport, and makes this transport accept the
  /// node. If the node has this process's card, then calls `joined`, and marks the node as known.
  /// Throws error.
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

  /// State of the latest node of a place, with the epoch of that node.
  struct alignas(4) place_state {
    std::uint16_t epoch;
    node_state state;
    std::uint8_t unused; ///< always 0, so that the bytes of equal values are equal
  };
  static_assert(sizeof(place_state) == 4 && last_node_epoch <= UINT16_MAX);

  [[nodiscard]] const row& row_of(node_id node) const;
  /// Sets the state of a node, unless another node has got its place, or the node's state is `kept`
  /// or `to`. Returns the node's state before, and nullopt if another node has got its place.
  std::optional<node_state> change_state(node_id node, node_state to, node_state kept) noexcept;
  [[nodiscard]] std::atomic_ref<place_state> state(node_id node) const noexcept {
    return std::atomic_ref<place_state>(states_[place_of(node)]);
  }

  node_id self_;
  std::atomic<std::size_t> size_;
  node_table<row> rows_;
  zeroed_array<place_state> states_; ///< accessed by state()
  std::atomic<std::size_t> live_{0};
};

} // namespace farcall
