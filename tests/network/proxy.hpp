// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace farcall::test {

/// Forwards bytes between hosts and a server, and can treat their connections like a faulty
/// network.
class proxy {
 public:
  explicit proxy(std::uint16_t server_port);
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;
  ~proxy();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string url() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

  /// Stops forwarding in both directions, without closing connections.
  void fall_silent() { is_silent_ = true; }
  void speak_again() { is_silent_ = false; }
  enum class way : std::uint8_t { none, to_server, to_client };
  /// Discards the bytes in that direction on all connections except the first, after `behind` bytes
  /// of each.
  void swallow(way which, std::size_t behind = 0) {
    swallowed_behind_ = behind;
    swallowed_ = which;
  }
  /// Limits the bytes forwarded in a second, on each connection except the first and in each
  /// direction; still reads at once.
  void slow_down(std::size_t bytes_a_second) { pace_ = bytes_a_second; }
  /// Closes new connections at once from now on.
  void turn_away() { turns_away_ = true; }
  /// Redirects new connections to another node; no_node ends that.
  void lead_to(node_id node) { leads_to_ = node; }
  /// Holds the server's bytes back until it has sent some to `clients` clients: a client that waits
  /// for one reply before it asks for the next waits for ever. 0 forwards at once.
  void hold_until_said_to(std::size_t clients) { held_clients_ = clients; }
  /// Resets the connections from number `from` on, in the order of their arrival, at both sides.
  /// Returns when it is done.
  void reset(std::size_t from = 0) { end_connections(from, true); }
  /// Closes the connections in order, at both sides.
  void finish(std::size_t from = 0) { end_connections(from, false); }

  /// Returns the clients' bytes for each connection, in the order of arrival; the first 4 KiB.
  [[nodiscard]] std::vector<std::string> recorded() const;
  /// True if the client of this connection has closed it, or finish() or reset() has.
  [[nodiscard]] bool has_ended(std::size_t number) const;

 private:
  struct side {
    unique_fd fd;
    std::string waiting;  ///< to send to this side
    std::size_t come = 0; ///< bytes from this side
    bool has_ended = false;
  };
  struct pair {
    side client;
    side server;
    std::size_t number = 0;
  };

  void run();
  void take();
  void read(side& from, side& to, std::string* record, bool swallows) const;
  static void write(side& from, side& to, std::size_t most);
  [[nodiscard]] std::size_t most_of(const pair& p, std::size_t slow) const;
  [[nodiscard]] std::size_t slow_budget();
  [[nodiscard]] bool are_held() const;
  void end_connections(std::size_t from, bool reset);

  std::uint16_t server_port_;
  std::uint16_t port_ = 0;
  unique_fd listener_;
  std::atomic<bool> is_silent_{false};
  std::atomic<way> swallowed_{way::none};
  std::atomic<std::size_t> swallowed_behind_{0};
  std::atomic<std::size_t> pace_{0}; ///< 0 if unlimited
  std::atomic<bool> stops_{false};
  std::atomic<bool> turns_away_{false};
  std::atomic<node_id> leads_to_{no_node};
  std::atomic<std::size_t> held_clients_{0};
  mutable std::mutex mutex_;
  std::list<pair> pairs_;
  time_point paced_{}; ///< time of the last budget
  std::vector<std::string> recorded_;
  std::thread thread_;
};

/// A connection to a port on loopback, for tests that send raw bytes.
class raw_client {
 public:
  explicit raw_client(std::uint16_t port, const char* from = "127.0.0.1");

  /// Returns false if the peer has closed the connection.
  bool send(const std::string& bytes);
  /// Waits until the peer closes the connection; false if it does not within `bound`.
  [[nodiscard]] bool is_ended_within(std::chrono::milliseconds bound);
  /// Bytes received until then.
  [[nodiscard]] const std::string& received() const noexcept { return received_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  unique_fd fd_;
  std::string received_;
};

} // namespace farcall::test
