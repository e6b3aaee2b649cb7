#include <farcall/base/error.hpp>
#include <farcall/job/roster.hpp>

#include <climits>
#include <utility>

namespace farcall {

void roster::add(card c) {
  if (c.id >= rows_.size()) throw malformed_message("there is no node with the number of a card");
  row& r = rows_[c.id];
  r.its = std::move(c);
  if (r.state == node_state::absent) r.state = node_state::joined;
}

bool roster::fail(node_id node) {
  return std::exchange(rows_.at(node).state, node_state::failed) != node_state::failed;
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
  return {nullptr, refusals};
}

void roster::choose_routes(std::span<transport* const> transports) {
  for (row& r : rows_) {
    r.route = choose(r.its, transports);
    if (r.route.via != nullptr) r.route.via->admit(r.its);
  }
}

} // namespace farcall
