#pragma once

#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace farcall::tool {

/// What somebody without a key does to a server that he can reach.
struct attack {
  std::string name;
  std::size_t connections_per_second = 0;
  /// So many stay open; the oldest makes room.
  std::size_t kept_open = 0;
  /// What each sends at once; not called where empty.
  std::function<std::string(std::mt19937_64&)> says = {};
  /// Of what it says, a byte now and then, in turn over the connections.
  bool is_slow = false;
  /// Connections are reset, not closed in order.
  bool resets = false;
};

/// Carries an attack out, on a thread of its own and from an address of its own on loopback.
class attacker {
 public:
  attacker(const attack& what, std::uint16_t port);
  ~attacker();
  attacker(const attacker&) = delete;
  attacker& operator=(const attacker&) = delete;
  attacker(attacker&&) = delete;
  attacker& operator=(attacker&&) = delete;

  /// That it has begun.
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
  std::thread thread_;
};

/// The attacks, with what was recorded of two hosts of that server: beginnings of connections to it
/// by a host that is gone, and by one whose job runs.
[[nodiscard]] std::vector<attack> all_attacks(std::vector<std::string> of_before,
                                              std::vector<std::string> of_running);

} // namespace farcall::tool
