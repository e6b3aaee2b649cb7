// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/service_thread.hpp>
#include <farcall/transport/target_url.hpp>

#include <chrono>
#include <list>
#include <mutex>

namespace farcall::detail {

struct job_state;

/// If a target of a server has failed, restarts it once a server accepts targets again. Tries this
/// on a service thread. Any thread may use this object.
class lost_servers {
 public:
  explicit lost_servers(job_state& job);

  /// Enables restarts (job_options::restart_lost_servers). Call before the first node fails.
  void enable() noexcept { is_enabled_ = true; }
  /// Call when a node has failed. Schedules its restart, except if restarts are disabled, if the
  /// node was removed, or if no server has started it.
  void node_failed(node_id node) noexcept;
  /// Waits for the attempt that is in progress, and ends the thread.
  void stop() noexcept { (void)thread_.stop(); }

 private:
  /// Number of attempts that have failed so far, and the pause before the next one. A restart after
  /// which the target soon failed again counts as a failed attempt.
  struct attempts {
    unsigned count;
    std::chrono::milliseconds pause;
  };

  struct lost {
    node_id node;
    target_url url;
    attempts tried;
    time_point next;
  };

  /// A node that is the restart of a failed one.
  struct returned {
    node_id node;
    attempts tried;
    time_point since;
  };

  [[nodiscard]] time_point try_next(std::unique_lock<std::mutex>& lock) noexcept;
  /// Counts one more failed attempt of `one`, and sets the time of the next attempt. Returns false
  /// if the maximum number of attempts is reached.
  [[nodiscard]] static bool count_attempt(lost& one, attempts before) noexcept;
  static void warn_of_the_last(const lost& one);
  /// Records that the lost node `before` was restarted as the node `now`. If `now` has already
  /// failed again, this counts as a failed attempt.
  void came_back(const lost& before, node_id now);
  /// Tries once to restart the node. Returns true if this has succeeded, or if no attempt is left.
  [[nodiscard]] bool try_again(lost& one);

  job_state* job_;
  bool is_enabled_ = false;
  std::list<lost> all_; ///< nodes to restart; the thread's mutex guards this list and returned_
  /// Nodes that were restarted not long ago, and may soon fail again.
  std::list<returned> returned_;
  service_thread thread_;
};

} // namespace farcall::detail
