// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/equals_rounds.hpp>

#include <algorithm>

namespace farcall {

void equals_rounds::note_quiet(node_id node, std::uint32_t round, bool was_active) {
  if (round != round_) throw malformed_message("it is quiet in another round");
  if (!gone_.contains(node)) was_active_[node] = was_active;
}

void equals_rounds::leave(node_id node) {
  gone_.insert(node);
  was_active_.erase(node);
}

equals_rounds::outcome equals_rounds::end_round() {
  if (is_over_ || was_active_.size() + gone_.size() < nodes_) return outcome::open;
  const bool was_active =
      std::ranges::any_of(was_active_, [](const auto& of) { return of.second; });
  was_active_.clear();
  if (!was_active) {
    is_over_ = true;
    return outcome::job_over;
  }
  ++round_;
  return outcome::next_round;
}

} // namespace farcall
