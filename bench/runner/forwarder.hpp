// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::tool {

/// Simulates a distant server on loopback: data arrives at the other side half a round trip later,
/// and a connection is established after a whole one. The rate is unlimited.
class forwarder {
 public:
  using clock = std::chrono::steady_clock;

  /// Starts to forward to the server at `server_url` ("tcp://127.0.0.1:40123").
  explicit forwarder(const std::string& server_url, std::chrono::milliseconds round_trip = {});
  ~forwarder();
  forwarder(const forwarder&) = delete;
  forwarder& operator=(const forwarder&) = delete;
  forwarder(forwarder&&) = delete;
  forwarder& operator=(forwarder&&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  /// Returns the first bytes from each client, at most 4 KiB each, in order of connection.
  [[nodiscard]] std::vector<std::string> recorded() const;

 private:
  /// Bytes in transit from one side to the other.
  struct direction {
    struct piece {
      clock::time_point due;
      std::string bytes; ///< empty at the end of the stream
    };
    int from = -1;
    int to = -1;
    std::deque<piece> under_way;
    bool has_ended = false; ///< the sender has closed
  };
  struct connection {
    unique_fd client;
    unique_fd server;
    clock::time_point there_at; ///< earliest time for bytes to leave
    direction to_server;
    direction to_client;
    std::size_t number = 0; ///< index in recorded_
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
  library_thread thread_;
};

} // namespace farcall::tool
