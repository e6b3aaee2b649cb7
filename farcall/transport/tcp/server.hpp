#pragma once

#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/identity.hpp>
#include <farcall/transport/tcp/refusals.hpp>
#include <farcall/transport/tcp/server_events.hpp>

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
  tcp::address listen;                   ///< port 0: any; a path is a Unix socket's
  std::vector<tcp::address> also_listen; ///< further places
  [[nodiscard]] std::vector<tcp::address> places() const; ///< both
  /// Sockets that listen already, in place of places(); the server closes them.
  std::vector<int> listeners;
  std::string program;                ///< that targets run
  std::vector<std::string> arguments; ///< of the targets, argv[0] included
  /// The program, and its arguments, that a host gets where it asks for a sampler of its targets in
  /// place of one more (`farcall prof`); empty: none. It sees which processes are this one's.
  std::vector<std::string> sampler;
  farcall::access access; ///< empty: unencrypted, see `plain`; read again by reload()
  /// Why reload() cannot read the files of `access` again, in words; empty: it can.
  std::string reads_access_once;
  bool keeps_output = false; ///< what targets print goes where the server prints
  bool plain = false; ///< needed without a key at TCP ports: everybody who can reach them may come
  bool trusts_network = false; ///< needed with `plain` beyond loopback
  std::uint32_t most_targets = 1000;
  /// That hosts may ask for: so long targets live whose host has vanished.
  std::chrono::milliseconds longest_heartbeat_timeout{std::chrono::hours(24)};
  std::chrono::milliseconds handshake_timeout{5'000}; ///< for a connection to say what it wants
  server_event_sink events;                           ///< empty: they go to the log of the process
};

/// What a server does at a moment, and has done so far.
struct server_status {
  std::size_t targets = 0;  ///< that run, samplers included
  std::size_t hosts = 0;    ///< that have them
  std::size_t unproved = 0; ///< connections that have not said, or not proved, what they want
  bool is_draining = false;
  std::uint64_t targets_started = 0;
  std::uint64_t targets_not_started = 0; ///< that hosts have asked for in vain, once let in
  std::uint64_t connections = 0;         ///< that have come
  std::array<std::uint64_t, tcp::refusal_causes> refused{};
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
  /// Kills what targets are left, and tells their hosts; waits up to a second until these have
  /// heard.
  ~server();

  /// Where it listens.
  [[nodiscard]] const std::vector<tcp::address>& addresses() const noexcept;
  /// How connections to one of addresses() are protected, in words.
  [[nodiscard]] std::string protection_at(const tcp::address& where) const;
  /// Reads the files of keys, clients and certificates again. Those who come from now on are taken
  /// by what they say now; targets of clients that stand there no longer end, and their hosts learn
  /// why; other connections stay. Any thread. Throws setting_error for files that cannot be used;
  /// then nothing has changed, as its log says, too.
  void reload() const;
  /// Targets that run now.
  [[nodiscard]] std::uint32_t targets() const noexcept;
  /// As the thread that serves sees it; nothing where it does not reply within `longest`. Blocks
  /// until then. Any thread.
  [[nodiscard]] std::optional<server_status> status(std::chrono::milliseconds longest) const;

  /// Starts no more targets; those that run go on, and hosts that ask are told. Any thread.
  void drain();
  /// Becomes readable, and stays so, once the server drains and no target is left.
  [[nodiscard]] int drained_fd() const noexcept;

 private:
  class impl;
  std::shared_ptr<impl> impl_;
};

/// What happens while serve_until_signalled() blocks.
struct serving {
  std::function<void()> on_listening; ///< once it has said where
  std::function<void()> on_draining;
  /// Its end, as that of standard input, ends the serving at once; what comes there is thrown away.
  /// -1: none.
  int input = -1;
};

/// Says where it listens, on standard output, and blocks until it is to end. The first SIGINT or
/// SIGTERM drains the server, whose last target ends it; the second ends it at once, and so
/// does the end of the terminal that it runs in. At another SIGHUP it reads its files again. The
/// calling thread and those that it starts must have these signals blocked: see
/// block_end_signals(). Throws error.
void serve_until_signalled(server& s, const serving& meanwhile = {});

/// Before the server is made.
void block_end_signals() noexcept;

} // namespace farcall
