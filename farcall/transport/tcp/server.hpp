#pragma once

#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/identity.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace farcall {

struct server_options {
  tcp::address listen;                ///< port 0: any
  std::string program;                ///< that targets run
  std::vector<std::string> arguments; ///< of the targets, argv[0] included
  /// The program, and its arguments, that a host gets where it asks for a sampler of its targets in
  /// place of one more (`farcall prof`); empty: none. It sees which processes are this one's.
  std::vector<std::string> sampler;
  farcall::access access;      ///< empty: unencrypted, on loopback only
  bool keeps_output = false;   ///< what targets print goes where the server prints
  bool plain = false;          ///< unencrypted although there may be others on the network
  bool trusts_network = false; ///< needed with `plain` beyond loopback
  std::uint32_t most_targets = 1000;
  /// That hosts may ask for: so long targets live whose host has vanished.
  std::chrono::milliseconds longest_heartbeat_timeout{std::chrono::hours(24)};
  std::chrono::milliseconds handshake_timeout{5'000}; ///< for a connection to say what it wants
};

/// Makes this machine one where hosts on others can have targets: takes connections, starts a
/// process for each target that a host asks for, hands the connections of the job's nodes on to it,
/// and kills it when its host is gone. Outlives every job and target.
class server {
 public:
  /// Listens from here on. Throws setting_error when the options are not safe, with the option that
  /// is missing, and error when it cannot listen.
  explicit server(server_options o);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// Kills what targets are left.
  ~server();

  /// Where it listens.
  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept;
  /// How connections are protected, in words.
  [[nodiscard]] std::string protection() const;
  /// Targets that run now.
  [[nodiscard]] std::uint32_t targets() const noexcept;

 private:
  class impl;
  std::shared_ptr<impl> impl_;
};

/// Says where it listens, on standard output, and blocks until SIGINT or SIGTERM. The calling
/// thread and those that it starts must have these blocked: see block_end_signals().
void serve_until_signalled(const server& s);

/// Before the server is made.
void block_end_signals() noexcept;

} // namespace farcall
