// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/future.hpp>
#include <farcall/copy/pending_transfers.hpp>

#include <algorithm>

namespace farcall::detail {

void pending_transfers::add(const place& where, am::local_completion& transfer) {
  const std::lock_guard guard(mutex_);
  forget_ready();
  transfers_.emplace_back(where, held(transfer));
  // Relaxed, because the flag is read only by the lane's own thread, or by a thread that holds the
  // lane's guard.
  if (where.lane != nullptr) where.lane->has_transfers.store(true, std::memory_order_relaxed);
  // Release, paired with the acquire load in settle().
  count_.store(transfers_.size(), std::memory_order_release);
}

bool pending_transfers::wait(const std::vector<held>& transfers, time_point deadline) {
  for (const held& t : transfers) {
    if (!(*t).ready() && !wait_until(*t, deadline)) return false;
  }
  const std::lock_guard guard(mutex_);
  forget_ready();
  return true;
}

void pending_transfers::update(am::requester& lane) {
  const std::lock_guard guard(mutex_);
  const bool is_left = std::any_of(transfers_.begin(), transfers_.end(),
                                   [&](const auto& t) { return t.first.lane == &lane; });
  lane.has_transfers.store(is_left, std::memory_order_relaxed);
}

void pending_transfers::forget_ready() {
  std::erase_if(transfers_, [](const auto& t) { return (*t.second).ready(); });
  count_.store(transfers_.size(), std::memory_order_release);
}

} // namespace farcall::detail
