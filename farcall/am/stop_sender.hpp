// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/service_thread.hpp>

#include <list>
#include <mutex>
#include <vector>

namespace farcall::am {

class engine;

/// Sends requests to stop calls on a service thread, because a thread that stops a call must not
/// wait for a lane to be opened, nor for space in it. Stops for one node are sent in order. A full
/// lane to one node does not delay stops for another.
class stop_sender {
 public:
  explicit stop_sender(engine& e);
  stop_sender(const stop_sender&) = delete;
  stop_sender& operator=(const stop_sender&) = delete;
  ~stop_sender() { stop(); }

  /// Queues a stop for the service thread. Takes only the queue's own locks, so that the caller may
  /// hold a lane's guard. Any thread may call it.
  void send(node_id to, const stop_message& what) noexcept;

  /// Waits until all queued stops are sent, at most until `deadline`.
  void drain(time_point deadline) noexcept { (void)thread_.drain(deadline); }

  /// Ends the service thread. Stops that are not sent yet are dropped.
  void stop() noexcept { (void)thread_.stop(); }

 private:
  struct item {
    node_id to;
    stop_message what;
  };

  [[nodiscard]] time_point send_due(std::unique_lock<std::mutex>& lock) noexcept;
  void send_waiting() noexcept;

  engine* engine_;
  std::list<item> due_; ///< stops to send; guarded by the thread's mutex
  /// Stops that could not be sent yet. Only the service thread uses this list and full_.
  std::list<item> waiting_;
  std::vector<bool> full_; ///< by the node's place; true if a stop to the node could not be sent in
                           ///< this round
  service_thread thread_;
};

} // namespace farcall::am
