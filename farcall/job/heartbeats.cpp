// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/heartbeats.hpp>

#include <algorithm>

namespace farcall {

heartbeats::heartbeats(std::chrono::milliseconds peer_timeout)
    : interval_(peer_timeout.count() == 0 ? std::chrono::milliseconds(0)
                                          : std::max(peer_timeout / heartbeats_per_timeout,
                                                     std::chrono::milliseconds(1))) {}

void heartbeats::begin(time_point now) noexcept {
  if (interval_.count() != 0) next_ = now + interval_;
}

bool heartbeats::is_due(time_point now) noexcept {
  if (now < next_) return false;
  next_ = now + interval_;
  return true;
}

bool heartbeats::count(node_id node) {
  if (node >= missed_.size()) missed_.resize(node + 1);
  return missed_[node]++ <= heartbeats_per_timeout;
}

void heartbeats::note_message(node_id node) noexcept {
  if (node < missed_.size()) missed_[node] = 0;
}

} // namespace farcall
