#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/target_url.hpp>

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace farcall::detail {

struct job_state;

/// Starts targets of servers again that have failed, once their servers are there: on a thread of
/// its own, which the first makes. Any thread.
class lost_servers {
 public:
  lost_servers() = default;
  lost_servers(const lost_servers&) = delete;
  lost_servers& operator=(const lost_servers&) = delete;
  ~lost_servers() { stop(); }

  /// The job asks for it. Before the first node fails.
  void enable() noexcept { is_enabled_ = true; }
  /// Nothing where the job does not ask for it, and for targets that no server has started.
  void node_failed(job_state& job, node_id node) noexcept;
  /// Waits for an attempt that is under way.
  void stop() noexcept;

 private:
  /// How often it has been tried, in vain or for a target that did not stay, and how long to wait
  /// before the next time.
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

  /// A node that is there again.
  struct returned {
    node_id node;
    attempts tried;
    time_point since;
  };

  void run(job_state& job) noexcept;
  /// Another attempt has failed, just now. False when it was the last.
  [[nodiscard]] static bool count_attempt(lost& one, attempts before) noexcept;
  static void warn_of_the_last(const lost& one);
  /// The node that failed as `before` is there as `now`, or was and has failed already.
  void came_back(const lost& before, node_id now);
  /// True when that is over.
  [[nodiscard]] bool try_again(job_state& job, lost& one);

  bool is_enabled_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<lost> all_;
  std::list<returned> returned_; ///< those that have not stayed for long yet
  bool is_stopping_ = false;
  std::thread thread_;
};

} // namespace farcall::detail
