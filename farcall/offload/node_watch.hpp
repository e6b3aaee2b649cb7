// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace farcall {
struct node_event;
}

namespace farcall::detail {

class node_observer;
struct job_state;

/// Tells the program's observers which nodes have joined and left the job. Any thread may use it.
class node_watch {
 public:
  /// Sets how many nodes the job has at its start. The joining of these nodes is not reported.
  void start(node_id nodes) noexcept { first_to_join_ = nodes; }
  void add(std::shared_ptr<node_observer> observer);

  void node_joined(job_state& job, node_id node, node_id replaces = no_node);
  /// Reports that a node has ended. Do not call it for nodes that end because the job ends.
  void node_ended(job_state& job, node_id node, const std::string& why);

  /// Records that the program is removing the node. Returns false if this was recorded before.
  [[nodiscard]] bool remove(node_id node);
  [[nodiscard]] bool is_removed(node_id node);

  /// Calls the observers for all pending events, in the order of the events. Only one thread at a
  /// time may call it.
  void tell_all() noexcept;
  /// Drops the pending events and all later ones.
  void stop() noexcept;

 private:
  using observers = std::vector<std::shared_ptr<node_observer>>;

  /// The caller of tell() and tell_end() must hold the mutex, and the caller of tell_soon() must
  /// not.
  void tell(node_event event);
  void tell_end(job_state& job, node_id node, const std::string& why);
  void tell_soon(job_state& job);

  std::mutex mutex_;
  observers observers_;
  std::list<std::pair<observers, std::shared_ptr<const node_event>>> to_tell_;
  bool is_telling_ = false; ///< true while a continuation that reports events runs or is scheduled
  std::set<node_id> removed_;
  node_id first_to_join_ = no_node;
  std::set<node_id> joined_;
  /// For each node whose end was noticed before its joining was reported, the reason of the end.
  std::map<node_id, std::string> ended_early_;
  bool is_stopped_ = false;
};

} // namespace farcall::detail
