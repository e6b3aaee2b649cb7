#pragma once

#include <farcall/am/message.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace farcall::am {

class engine;

/// Sends stops of calls on a thread of its own: whoever requests a stop must not wait for a lane to
/// be opened, nor for space in it. Started by the first. Those for one node go in order; a node
/// that takes none keeps none of another waiting.
class stop_sender {
 public:
  explicit stop_sender(engine& e) noexcept : engine_(&e) {}
  stop_sender(const stop_sender&) = delete;
  stop_sender& operator=(const stop_sender&) = delete;
  ~stop_sender() { stop(); }

  /// Takes locks of its own only, so a lane's guard may be held. Any thread.
  void send(node_id to, const stop_message& what) noexcept;

  /// Waits until all are sent, at most until `deadline`.
  void drain(time_point deadline) noexcept;

  /// Ends the thread; what is not sent yet is dropped.
  void stop() noexcept;

 private:
  struct item {
    node_id to;
    stop_message what;
  };

  void run() noexcept;
  void send_waiting(std::vector<bool>& full) noexcept;

  engine* engine_;
  std::mutex mutex_;
  std::condition_variable something_;
  std::condition_variable nothing_;
  std::list<item> due_;
  std::list<item> waiting_; ///< the thread's
  bool is_busy_ = false;    ///< the thread has some in hand
  bool is_stopping_ = false;
  std::thread thread_;
};

} // namespace farcall::am
