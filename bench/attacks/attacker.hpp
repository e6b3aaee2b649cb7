// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <vector>

namespace farcall::tool {

/// An attack on a server by a client without a key.
struct attack {
  std::string name;
  std::size_t connections_per_second = 0;
  /// Number of connections to keep open; a new one replaces the oldest.
  std::size_t kept_open = 0;
  /// Returns the bytes that a connection sends at once. The function may be empty.
  std::function<std::string(std::mt19937_64&)> says = {};
  /// Send single bytes now and then, rotating over the connections.
  bool is_slow = false;
  /// Reset connections in place of an orderly close.
  bool resets = false;
};

/// Carries out an attack from its own thread and its own loopback address.
class attacker {
 public:
  attacker(const attack& what, std::uint16_t port);
  ~attacker();
  attacker(const attacker&) = delete;
  attacker& operator=(const attacker&) = delete;
  attacker(attacker&&) = delete;
  attacker& operator=(attacker&&) = delete;

  /// Number of connections started.
  [[nodiscard]] std::size_t connections() const { return made_; }

 private:
  struct connection {
    unique_fd fd;
    std::string unsaid;
  };

  void run();
  void connect_once();
  void drop_oldest();

  const attack* what_;
  std::uint16_t port_;
  std::mt19937_64 random_{1};
  std::list<connection> open_;
  std::atomic<std::size_t> made_{0};
  std::atomic<bool> stops_{false};
  library_thread thread_;
};

/// Returns all attacks. They replay recorded beginnings of connections to the server: `of_before`
/// by a host that has gone, `of_running` by the host of a running job.
[[nodiscard]] std::vector<attack> all_attacks(std::vector<std::string> of_before,
                                              std::vector<std::string> of_running);

} // namespace farcall::tool
