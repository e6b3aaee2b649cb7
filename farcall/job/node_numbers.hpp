// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <vector>

namespace farcall {

/// Decides, on the host, which numbers nodes get that join a running job. First each place is used
/// once. Afterwards a node gets the place of a node that has ended, with the next epoch: the place
/// that has been free for the longest time. Any thread may use it.
class node_numbers {
 public:
  /// Numbers of a job that starts with the nodes 0 to `nodes` - 1, and whose places are below
  /// `places`.
  explicit node_numbers(std::size_t nodes = 1, std::size_t places = max_node_places);

  /// Returns the numbers that the next `count` nodes will get. If too few places are free, waits
  /// until enough nodes that are ending have ended, at most until the deadline. Returns an empty
  /// vector if there are not enough places then.
  [[nodiscard]] std::vector<node_id> next(std::size_t count, time_point deadline);
  /// Gives the first `count` of the numbers that next() has returned. Only one thread at a time may
  /// call next() and give().
  void give(std::size_t count);

  /// Notes that a node with a number from give() has failed, while its process may still exist.
  void note_ending(node_id node);
  /// Notes that the process of a node has ended, so that another node can get the place. Has no
  /// effect if this was noted before.
  void note_ended(node_id node);

  /// Returns how many places are taken by nodes that have not ended, the host included.
  [[nodiscard]] std::size_t taken() const;
  [[nodiscard]] std::size_t places() const noexcept { return places_; }

 private:
  const std::size_t places_;
  mutable std::mutex mutex_;
  std::condition_variable changed_; ///< notified by note_ended()
  std::size_t used_;                ///< the lowest place that was never used
  std::deque<node_id> free_;        ///< numbers with free places, in the order of the ends
  std::set<node_id> ending_;
  /// Numbers that were given and whose nodes have not ended.
  std::set<node_id> given_;
};

} // namespace farcall
