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

/// Tells the program which nodes have joined and left. Any thread.
class node_watch {
 public:
  /// The job has started with so many nodes, of which none is told to have joined.
  void start(node_id nodes) noexcept { first_to_join_ = nodes; }
  void add(std::shared_ptr<node_observer> observer);

  void node_joined(job_state& job, node_id node, node_id replaces = no_node);
  /// Not for nodes that end because the job does.
  void node_ended(job_state& job, node_id node, const std::string& why);

  /// The node is about to be removed. False when it was already.
  [[nodiscard]] bool remove(node_id node);
  [[nodiscard]] bool is_removed(node_id node);

  /// Tells what is to be told, one after the other. On one thread at a time.
  void tell_all() noexcept;
  /// Tells of nothing any more.
  void stop() noexcept;

 private:
  using observers = std::vector<std::shared_ptr<node_observer>>;

  /// With the mutex; tell_soon() without it.
  void tell(node_event event);
  void tell_end(job_state& job, node_id node, const std::string& why);
  void tell_soon(job_state& job);

  std::mutex mutex_;
  observers observers_;
  std::list<std::pair<observers, std::shared_ptr<const node_event>>> to_tell_;
  bool is_telling_ = false; ///< somebody does, or soon will
  std::set<node_id> removed_;
  node_id first_to_join_ = no_node;
  std::set<node_id> joined_;
  std::map<node_id, std::string> ended_early_; ///< why: to be told once they have joined
  bool is_stopped_ = false;
};

} // namespace farcall::detail
