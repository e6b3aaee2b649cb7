// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/heartbeats.hpp>

#include <algorithm>
#include <cstddef>

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
  const std::size_t place = place_of(node);
  if (place >= missed_.size()) missed_.resize(place + 1);
  missed_count& of = missed_[place];
  if (of.node != node) of = {node, 0};
  return of.missed++ <= heartbeats_per_timeout;
}

void heartbeats::note_message(node_id node) noexcept {
  const std::size_t place = place_of(node);
  if (place < missed_.size() && missed_[place].node == node) missed_[place].missed = 0;
}

} // namespace farcall
