// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/continuation.hpp>
#include <farcall/am/message.hpp>
#include <farcall/am/request_context.hpp>
#include <farcall/am/stop_sender.hpp>
#include <farcall/am/stoppable_calls.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/node_id.hpp>

#include <map>
#include <vector>

namespace farcall::am {

class engine;
class requester;

/// Stops of calls: sends stops to the nodes that run the calls, and applies received stops to calls
/// that run here. Stops to a node use a lane with a separate worker at that node. They are
/// therefore received while handlers run, and overtake the calls that are queued behind those
/// handlers.
class stopping {
 public:
  explicit stopping(engine& owner) : owner_(owner) {}
  stopping(const stopping&) = delete;
  stopping& operator=(const stopping&) = delete;
  ~stopping() = default;

  /// Returns the table of stoppable calls that run on this node, or will begin.
  [[nodiscard]] stoppable_calls& calls() const noexcept { return *calls_; }
  /// Handler of stop_call_key.
  static void take(request_context& request) noexcept;
  /// Appends continuations to `due` that stop the calls of failed nodes to this node.
  void tell_calls_of(const std::vector<node_id>& failed, continuation_list& due);

  /// Queues a stop for the stop thread. Takes only the queue's own locks. Any thread may call it.
  void send(node_id node, const stop_message& what) noexcept { sender_.send(node, what); }
  /// Sends a stop without waiting. Returns false if it cannot be sent now. Called by the stop
  /// thread.
  [[nodiscard]] bool try_send(node_id node, const stop_message& what) noexcept;
  /// Waits until all queued stops are sent, at most until `deadline`.
  void drain(time_point deadline) noexcept { sender_.drain(deadline); }
  /// Ends the stop thread. Stops that are not sent yet are dropped.
  void end() noexcept { sender_.stop(); }

 private:
  struct lane_to_node {
    requester* lane = nullptr;
    bool is_shared = false; ///< true if calls also use the lane, because the node had no lane left
  };

  /// Returns the lane for stops to `node`, which the first call opens. Throws what
  /// lane_table::open() throws.
  [[nodiscard]] lane_to_node& reach(node_id node);

  engine& owner_;
  counted_ptr<stoppable_calls> calls_{new stoppable_calls};
  std::map<node_id, lane_to_node> lanes_; ///< lanes for stops, used by the stop thread only
  stop_sender sender_{owner_};
};

} // namespace farcall::am
