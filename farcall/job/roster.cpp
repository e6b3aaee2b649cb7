// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/roster.hpp>

#include <algorithm>
#include <climits>
#include <memory>
#include <string>
#include <utility>

namespace farcall {

roster::roster(node_id self, std::size_t nodes, std::size_t capacity)
    : self_(self), size_(nodes), rows_(std::max(nodes, capacity)),
      states_(std::make_unique<std::atomic<node_state>[]>(rows_.capacity())) {}

// Relaxed, because no other thread uses the two tables yet.
roster::roster(roster&& other) noexcept
    : self_(other.self_), size_(other.size_.load(std::memory_order_relaxed)),
      rows_(std::move(other.rows_)), states_(std::move(other.states_)) {}

roster& roster::operator=(roster&& other) noexcept {
  self_ = other.self_;
  size_.store(other.size_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  rows_ = std::move(other.rows_);
  states_ = std::move(other.states_);
  return *this;
}

void roster::grow(std::size_t nodes) noexcept {
  // Release, paired with the acquire load in size(), so that a thread that reads the new size also
  // finds the row of the new node. A separate load and store lose no change, because only one
  // thread at a time grows the table.
  if (nodes > size_.load(std::memory_order_relaxed)) {
    size_.store(std::min(nodes, capacity()), std::memory_order_release);
  }
}

void roster::add(card c, bool knows_us) {
  if (c.id >= capacity()) throw malformed_message("there is no node with the number of a card");
  const node_id node = c.id;
  row* there = rows_.find(node);
  if (there == nullptr) {
    auto made = std::make_unique<row>();
    made->its = std::move(c);
    there = rows_.publish(node, std::move(made));
  }
  there->knows_us = there->knows_us || knows_us;
  node_state before = node_state::absent;
  states_[node].compare_exchange_strong(before, node_state::joined, std::memory_order_relaxed);
}

bool roster::fail(node_id node) {
  if (node >= capacity()) throw malformed_message("there is no node with that number");
  return states_[node].exchange(node_state::failed, std::memory_order_relaxed) !=
         node_state::failed;
}

bool roster::knows(node_id node) const noexcept {
  const row* const r = rows_.find(node);
  // Acquire, paired with the release store in choose_routes(), so that the card and the route of
  // the node are visible.
  return r != nullptr && r->has_route.load(std::memory_order_acquire);
}

const roster::row& roster::row_of(node_id node) const {
  const row* const r = rows_.find(node);
  if (r == nullptr) {
    throw error(missing_node_text(node, size()));
  }
  return *r;
}

route roster::choose(const card& to, std::span<transport* const> transports) {
  route best;
  unsigned least = UINT_MAX;
  std::string refusals;
  for (transport* t : transports) {
    const reachability r = t->reachability_of(to);
    if (r.possible && r.cost < least) {
      least = r.cost;
      best = {t, r.reason};
    } else if (!r.possible) {
      refusals +=
          std::string(refusals.empty() ? "" : ", ") + std::string(t->scheme()) + ": " + r.reason;
    }
  }
  if (best.via != nullptr) return best;
  if (is_hosted(to)) {
    return {nullptr,
            "it lives in the process of " + node_text(to.owner) + ", which alone calls it"};
  }
  if (refusals.empty()) refusals = "this process has no transport any more, since its job ends";
  return {nullptr, refusals};
}

void roster::choose_routes(std::span<transport* const> transports,
                           const std::function<void(const card&, const route&)>& joined) {
  rows_.for_each([&](node_id /*node*/, row& r) {
    if (r.has_route.load(std::memory_order_relaxed)) return;
    if (!std::exchange(r.is_admitted, true)) {
      r.route = choose(r.its, transports);
      try {
        if (r.route.via != nullptr) r.route.via->admit(r.its);
      } catch (const error& e) {
        r.route = {nullptr, e.what()};
      }
    }
    if (!r.knows_us) return;
    if (joined) joined(r.its, r.route);
    // Release, paired with the acquire load in knows(), so that the card and the route of the node
    // are visible.
    r.has_route.store(true, std::memory_order_release);
  });
}

} // namespace farcall
