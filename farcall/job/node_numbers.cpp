// SPDX-License-Identifier: Apache-2.0
#include <farcall/job/node_numbers.hpp>

namespace farcall {

node_numbers::node_numbers(std::size_t nodes, std::size_t places) : places_(places), used_(nodes) {
  for (std::size_t i = 1; i < nodes; ++i)
    given_.insert(static_cast<node_id>(i));
}

std::vector<node_id> node_numbers::next(std::size_t count, time_point deadline) {
  std::unique_lock guard(mutex_);
  const auto free_places = [this] { return places_ - used_ + free_.size(); };
  const auto is_decided = [&] {
    return free_places() >= count || free_places() + ending_.size() < count;
  };
  if (deadline == no_deadline) {
    changed_.wait(guard, is_decided);
  } else {
    changed_.wait_until(guard, deadline, is_decided);
  }
  if (free_places() < count) return {};
  std::vector<node_id> numbers;
  for (std::size_t place = used_; place < places_ && numbers.size() < count; ++place)
    numbers.push_back(static_cast<node_id>(place));
  for (auto at = free_.begin(); numbers.size() < count; ++at)
    numbers.push_back(*at);
  return numbers;
}

void node_numbers::give(std::size_t count) {
  const std::lock_guard guard(mutex_);
  for (; count > 0; --count) {
    if (used_ < places_) {
      given_.insert(static_cast<node_id>(used_++));
    } else {
      given_.insert(free_.front());
      free_.pop_front();
    }
  }
}

void node_numbers::note_ending(node_id node) {
  const std::lock_guard guard(mutex_);
  if (given_.contains(node)) ending_.insert(node);
}

void node_numbers::note_ended(node_id node) {
  {
    const std::lock_guard guard(mutex_);
    ending_.erase(node);
    if (given_.erase(node) == 0) return;
    if (epoch_of(node) < last_node_epoch) free_.push_back(successor_of(node));
  }
  changed_.notify_all();
}

std::size_t node_numbers::taken() const {
  const std::lock_guard guard(mutex_);
  return given_.size() + 1;
}

} // namespace farcall
