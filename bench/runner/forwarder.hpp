#pragma once

#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace farcall::tool {

/// Puts a server on loopback far away: what either side sends arrives at the other half a round
/// trip later, and a connection is there after a whole one. There is no limit to the rate.
class forwarder {
 public:
  using clock = std::chrono::steady_clock;

  /// Stands before the server at `server_url` ("tcp://127.0.0.1:40123") from now on.
  explicit forwarder(const std::string& server_url, std::chrono::milliseconds round_trip = {});
  ~forwarder();
  forwarder(const forwarder&) = delete;
  forwarder& operator=(const forwarder&) = delete;
  forwarder(forwarder&&) = delete;
  forwarder& operator=(forwarder&&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  /// What the clients have sent first, at most 4 KiB each, in the order in which they came.
  [[nodiscard]] std::vector<std::string> recorded() const;

 private:
  /// What is on its way from one side to the other.
  struct direction {
    struct piece {
      clock::time_point due;
      std::string bytes; ///< none: the end
    };
    int from = -1;
    int to = -1;
    std::deque<piece> under_way;
    bool has_ended = false; ///< the sender
  };
  struct connection {
    unique_fd client;
    unique_fd server;
    clock::time_point there_at; ///< nothing sets out before
    direction to_server;
    direction to_client;
    std::size_t number = 0; ///< in the record
    bool is_broken = false;
  };

  void run();
  void accept();
  void read(connection& c, direction& d);
  static void deliver(connection& c, direction& d);
  [[nodiscard]] int milliseconds_to_wait() const;

  std::chrono::milliseconds round_trip_;
  std::uint16_t server_port_ = 0;
  unique_fd listener_;
  unique_fd wake_;
  std::string url_;
  std::list<connection> connections_;
  mutable std::mutex mutex_;
  std::vector<std::string> recorded_; ///< guarded by mutex_
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

} // namespace farcall::tool
