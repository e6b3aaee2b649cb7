// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/server/server_events.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/refusals.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace farcall {

struct server_options {
  /// Address to listen at. Port 0 stands for any free port. A path stands for a Unix socket.
  tcp::address listen;
  std::vector<tcp::address> also_listen;                  ///< further addresses
  [[nodiscard]] std::vector<tcp::address> places() const; ///< `listen` and `also_listen`
  /// Listening sockets to use in place of places(). The server closes them.
  std::vector<int> listeners;
  std::string program;                ///< program of the targets
  std::vector<std::string> arguments; ///< arguments of the targets, argv[0] included
  /// Program and arguments of the sampler (`farcall prof`), a process that a host can ask for
  /// instead of a target, and that can see which processes belong to this server. Empty if the
  /// server offers no sampler.
  std::vector<std::string> sampler;
  /// Credentials of the server. If empty, connections are unencrypted, and `plain` says which
  /// connections are allowed. reload() reads the files of `access` again.
  farcall::access access;
  /// Reason why reload() cannot read the files of `access` again; empty if it can read them.
  std::string reads_access_once;
  bool keeps_output = false; ///< true if the output of targets goes to the server's output, not to
                             ///< their hosts
  /// True if TCP ports without a key are allowed, so that anyone who can reach them may use the
  /// server.
  bool plain = false;
  bool trusts_network = false; ///< True if `plain` also allows addresses beyond loopback.
  std::uint32_t max_targets = 1000;
  /// Longest heartbeat timeout that a host may ask for. After a host has vanished, its targets live
  /// for at most this time.
  std::chrono::milliseconds max_heartbeat_timeout{std::chrono::hours(24)};
  std::chrono::milliseconds handshake_timeout{5'000}; ///< time limit for a connection to send its
                                                      ///< request
  /// Function that receives the server's events. If empty, the events are written to the process's
  /// log.
  server_event_sink events;
};

/// Current state of a server, and counts since the server was started.
struct server_status {
  std::size_t targets = 0;  ///< running targets, samplers included
  std::size_t hosts = 0;    ///< hosts with targets
  std::size_t unproved = 0; ///< connections that have not yet sent a request or a proof
  bool is_draining = false;
  std::uint64_t targets_started = 0;
  /// Requests of admitted hosts for targets that were not started.
  std::uint64_t targets_not_started = 0;
  std::uint64_t connections = 0; ///< all connections so far
  std::array<std::uint64_t, tcp::refusal_causes> refused{};
};

/// Makes this machine available to hosts on other machines. Accepts connections, and starts a
/// process for each target that a host asks for. Passes connections from the job's other nodes to
/// the target. Kills the target when its host has gone. A server outlives every job and target.
class server {
 public:
  /// Starts to listen. Throws setting_error, which names the missing option, if the options are
  /// unsafe, and error if the server cannot listen.
  explicit server(server_options o);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// Kills the remaining targets and tells their hosts the reason. Waits at most a second until the
  /// hosts have received this notice.
  ~server();

  /// Returns the addresses at which the server listens.
  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept;
  /// Returns a text that says how connections to the address `where`, one of addresses(), are
  /// protected.
  [[nodiscard]] std::string protection_at(const tcp::address& where) const;
  /// Reads the files of keys, clients and certificates again, and checks new connections against
  /// the new content. If a client was removed from the files, its targets end, and their hosts are
  /// told the reason. All other connections stay. If a file cannot be used, nothing changes, a line
  /// is logged, and setting_error is thrown. Any thread.
  void reload() const;
  /// Returns the number of running targets.
  [[nodiscard]] std::uint32_t targets() const noexcept;
  /// Returns the state of the server, which its loop's thread reports. Waits for the report for at
  /// most `longest`, and returns nullopt after this time. Any thread.
  [[nodiscard]] std::optional<server_status> status(std::chrono::milliseconds longest) const;

  /// Drains the server: it starts no more targets, and refuses hosts that ask for one with this
  /// reason. Running targets continue. Any thread.
  void drain();
  /// Returns a descriptor that becomes readable once the server drains and has no targets left. The
  /// descriptor then stays readable.
  [[nodiscard]] int drained_fd() const noexcept;

 private:
  class impl;
  std::shared_ptr<impl> impl_;
};

/// Callbacks and input descriptor of serve_until_signalled().
struct serving {
  std::function<void()> on_listening; ///< called after the server's addresses were printed
  std::function<void()> on_draining;
  /// Descriptor, for instance of standard input, whose end of file ends the server at once. Bytes
  /// that can be read from it are discarded. -1 for none.
  int input = -1;
};

/// Prints the server's addresses to standard output, and blocks until the server ends. The first
/// SIGINT or SIGTERM drains the server, which ends with its last target. A second one ends the
/// server at once, and so does a SIGHUP that is sent because the terminal has gone. Any other
/// SIGHUP makes the server read its files again. These signals must be blocked in the calling
/// thread and in all threads that it starts, which block_end_signals() does. Throws error.
void serve_until_signalled(server& s, const serving& meanwhile = {});

/// Blocks the signals that serve_until_signalled() waits for. Call it before the server is made, so
/// that the server's threads inherit the mask.
void block_end_signals() noexcept;

} // namespace farcall
