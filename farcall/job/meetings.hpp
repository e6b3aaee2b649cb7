// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace farcall {

/// Place where threads of a target wait until another node is known, fails, or turns out not to
/// exist. Any thread may use it.
class meetings {
 public:
  /// Result of a wait. If the node is known, and also if the deadline has passed, both members have
  /// their initial values.
  struct result {
    bool is_absent = false; ///< true if the node does not exist
    std::string failure;    ///< reason if the node has failed or the job is ending
  };

  /// Waits until `is_known` returns true, the node fails or turns out not to exist, the job ends,
  /// or the deadline passes. Before the wait, calls `ask`, which asks the host about the node,
  /// unless another thread already waits for the same node. `ask` must not throw.
  result wait(node_id node, time_point deadline, const std::function<bool()>& is_known,
              const std::function<void()>& ask);

  /// Wakes the waiting threads, so that they check again whether their node is known. Call when
  /// another node has become known.
  void note_known();
  /// Records that the node has failed for the reason `why`. Ends the waits for this node, and each
  /// later wait at once.
  void note_failure(node_id node, const std::string& why);
  /// Ends the current waits for the node, because the host has replied that it does not exist.
  /// Later waits ask the host again.
  void note_absence(node_id node);
  /// Ends all waits, and each later wait at once, because the job ends.
  void end() noexcept;

 private:
  struct meeting {
    unsigned waiting = 0;
    bool is_absent = false;
  };

  std::mutex mutex_;
  std::condition_variable met_;
  std::map<node_id, meeting> all_; ///< nodes for which threads wait
  std::map<node_id, std::string> failures_;
  bool is_ending_ = false;
};

} // namespace farcall
