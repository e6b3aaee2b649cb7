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

/// Stands between hosts and a server, passes bytes on, and does to their connections what networks
/// do.
class proxy {
 public:
  explicit proxy(std::uint16_t server_port);
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;
  ~proxy();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string url() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

  /// Passes nothing on from here on, in either direction, and does not say so.
  void fall_silent() { is_silent_ = true; }
  void speak_again() { is_silent_ = false; }
  enum class way : std::uint8_t { none, to_server, to_client };
  /// Takes what comes that way over connections but the first, behind so many bytes of each, and
  /// passes nothing of it on.
  void swallow(way which, std::size_t behind = 0) {
    swallowed_behind_ = behind;
    swallowed_ = which;
  }
  /// Passes on so many bytes in a second at most, over each connection but the first and each way;
  /// takes what comes at once.
  void slow_down(std::size_t bytes_a_second) { pace_ = bytes_a_second; }
  /// New connections end at once from here on.
  void turn_away() { turns_away_ = true; }
  /// Leads what comes from here on to another node than it is for; no_node: no more.
  void lead_to(node_id node) { leads_to_ = node; }
  /// What the server says is passed on from here on only when it has said something to so many
  /// clients: who talks to one behind the other waits for ever. 0: at once.
  void hold_until_said_to(std::size_t clients) { held_clients_ = clients; }
  /// Both sides see their connections reset; `from` is the first that is, in the order in which
  /// they came. Returns when it is done.
  void reset(std::size_t from = 0) { end_connections(from, true); }
  /// Both sides see an orderly end.
  void finish(std::size_t from = 0) { end_connections(from, false); }

  /// What the clients have sent, by connection in the order in which they came; the first 4 KiB.
  [[nodiscard]] std::vector<std::string> recorded() const;

 private:
  struct side {
    unique_fd fd;
    std::string waiting;  ///< for this side
    std::size_t come = 0; ///< from this side
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
  std::atomic<std::size_t> pace_{0}; ///< if not 0
  std::atomic<bool> stops_{false};
  std::atomic<bool> turns_away_{false};
  std::atomic<node_id> leads_to_{no_node};
  std::atomic<std::size_t> held_clients_{0};
  mutable std::mutex mutex_;
  std::list<pair> pairs_;
  time_point paced_{}; ///< what may pass since then is the next budget
  std::vector<std::string> recorded_;
  std::thread thread_;
};

/// A connection to a port on loopback, for tests that speak by themselves.
class raw_client {
 public:
  explicit raw_client(std::uint16_t port, const char* from = "127.0.0.1");

  /// False when the other side has gone.
  bool send(const std::string& bytes);
  /// Waits for the other side to end the connection; false when it does not within `bound`.
  [[nodiscard]] bool is_ended_within(std::chrono::milliseconds bound);
  /// What came until then.
  [[nodiscard]] const std::string& heard() const noexcept { return heard_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  unique_fd fd_;
  std::string heard_;
};

} // namespace farcall::test
