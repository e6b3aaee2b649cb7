// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/introductions.hpp>

namespace farcall {

std::optional<introduction> introductions::ask(node_id asker, node_id other) {
  const auto [at, is_new] = states_[other].try_emplace(asker, peer_state::told_first);
  if (is_new) states_[asker].emplace(other, peer_state::waiting);
  const bool is_first = at->second == peer_state::told_first;
  if (!is_first && at->second != peer_state::told_second) return std::nullopt;
  return introduction{other, asker, !is_first, true};
}

std::optional<introduction> introductions::ask_for_hosted(node_id asker, node_id other) {
  const bool is_new = states_[asker].emplace(other, peer_state::known).second;
  if (!is_new) return std::nullopt;
  states_[other].emplace(asker, peer_state::known);
  return introduction{asker, other, true, true};
}

std::optional<introduction> introductions::confirm(node_id node, node_id other) {
  const peer_state before = state_of(node, other);
  const bool is_first = before == peer_state::told_first;
  if (!is_first && before != peer_state::told_second) return std::nullopt;
  states_[node][other] = peer_state::known;
  if (is_first) states_[other][node] = peer_state::told_second;
  return introduction{other, node, true, is_first};
}

std::vector<node_id> introductions::forget(node_id node) {
  std::vector<node_id> peers;
  const auto own = states_.extract(node);
  if (own.empty()) return peers;
  for (const auto& [other, state] : own.mapped()) {
    states_[other].erase(node);
    peers.push_back(other);
  }
  return peers;
}

peer_state introductions::state_of(node_id node, node_id other) const {
  const auto of = states_.find(node);
  if (of == states_.end()) return peer_state::unknown;
  const auto at = of->second.find(other);
  return at == of->second.end() ? peer_state::unknown : at->second;
}

} // namespace farcall
