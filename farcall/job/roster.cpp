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
    : self_(self), size_(nodes), rows_(std::max(nodes, capacity)), states_(rows_.capacity()) {}

// Relaxed, because no other thread uses the two tables yet.
roster::roster(roster&& other) noexcept
    : self_(other.self_), size_(other.size_.load(std::memory_order_relaxed)),
      rows_(std::move(other.rows_)), states_(std::move(other.states_)),
      live_(other.live_.load(std::memory_order_relaxed)) {}

roster& roster::operator=(roster&& other) noexcept {
  self_ = other.self_;
  size_.store(other.size_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  rows_ = std::move(other.rows_);
  states_ = std::move(other.states_);
  live_.store(other.live_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return *this;
}

std::vector<node_id> roster::known() const {
  std::vector<node_id> all;
  rows_.for_each([&](node_id node, const row& r) {
    // Acquire, as in knows().
    if (r.has_route.load(std::memory_order_acquire)) all.push_back(node);
  });
  return all;
}

void roster::grow_to(node_id node) noexcept { grow(std::size_t{place_of(node)} + 1); }

void roster::grow(std::size_t nodes) noexcept {
  // Release, paired with the acquire load in size(), so that a thread that reads the new size also
  // finds the row of the new node. A separate load and store lose no change, because only one
  // thread at a time grows the table.
  if (nodes > size_.load(std::memory_order_relaxed)) {
    size_.store(std::min(nodes, capacity()), std::memory_order_release);
  }
}

void roster::add(card c, bool knows_us) {
  if (!can_exist(c.id)) throw malformed_message("there is no node with the number of a card");
  const node_id node = c.id;
  row* there = rows_.find(node);
  if (there == nullptr) {
    auto made = rows_.make(node);
    made->value.its = std::move(c);
    there = rows_.publish(std::move(made));
  }
  there->knows_us = there->knows_us || knows_us;
  const auto before = change_state(node, node_state::joined, node_state::failed);
  if (before == node_state::absent) live_.fetch_add(1, std::memory_order_relaxed);
}

bool roster::fail(node_id node) {
  if (!can_exist(node)) throw malformed_message("there is no node with that number");
  const auto before = change_state(node, node_state::failed, node_state::failed);
  if (before == node_state::joined) live_.fetch_sub(1, std::memory_order_relaxed);
  return before && *before != node_state::failed;
}

std::optional<node_state> roster::change_state(node_id node, node_state to,
                                               node_state kept) noexcept {
  const auto epoch = static_cast<std::uint16_t>(epoch_of(node));
  const std::atomic_ref<place_state> at = state(node);
  place_state now = at.load(std::memory_order_relaxed);
  for (;;) {
    if (now.epoch > epoch) return std::nullopt;
    const node_state before = now.epoch == epoch ? now.state : node_state::absent;
    if (before == kept || before == to) return before;
    // Relaxed, because the state orders no other memory access.
    if (at.compare_exchange_weak(now, {epoch, to, 0}, std::memory_order_relaxed)) return before;
  }
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
