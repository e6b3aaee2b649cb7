// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/refusals.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <sys/types.h>

namespace farcall {

/// An event of a server for its log: a line that people can read, and the same facts as fields. The
/// texts are safe for log lines and terminals, whatever bytes peers have sent.
struct server_event {
  using fact = std::variant<std::string, std::int64_t>;

  log::level level{};
  std::string_view name; ///< such as "target_started"
  std::string text;
  std::vector<std::pair<std::string_view, fact>> facts; ///< such as "pid"
};

/// Function that takes the events of a server. Called on the thread of the server's loop; must not
/// block, nor throw.
using server_event_sink = std::function<void(const server_event&)>;

/// Client of a server, that is, the host of one job.
struct server_client {
  tcp::job_name job{};
  std::string address; ///< address of the host as text, with its port
  std::string name;    ///< name that the client has proved; empty if its key has none
};

/// Writes the events of a server to its log, and counts them. Used on the loop's thread.
class server_events {
 public:
  /// Passes the events to the function `to`. If `to` is empty, writes the events to the log of the
  /// process.
  explicit server_events(server_event_sink to);

  /// Called when a target of that client has started. If the client had no other target, also logs
  /// that the client has come.
  void target_started(const server_client& client, node_id node, pid_t pid, bool is_sampler);
  void target_not_started(const server_client& client, node_id node, const std::string& why);
  /// Called when a target has ended. If the client has no target left, also logs that the client
  /// has left.
  void target_ended(const server_client& client, node_id node, pid_t pid, const std::string& how);
  /// Called when a host can no longer be reached, so that its targets end.
  void host_lost(const server_client& client, const std::string& why);
  /// Called when a connection was refused. Logs at most ten lines a second, but counts all
  /// refusals.
  void refused(const std::string& address, tcp::refusal_cause cause, const std::string& why);
  /// Called when keys and certificates were read again. `ended` is the number of targets that end
  /// because their clients were revoked.
  void reloaded(std::size_t ended);
  /// Called when the new keys and certificates cannot be used, so that the old ones stay in use.
  void not_reloaded(const std::string& why);
  void draining(std::size_t targets);
  void ending(std::size_t targets);

  [[nodiscard]] std::uint64_t targets_started() const noexcept { return started_; }
  [[nodiscard]] std::uint64_t targets_not_started() const noexcept { return not_started_; }
  [[nodiscard]] const std::array<std::uint64_t, tcp::refusal_causes>& refusals() const noexcept {
    return refused_;
  }
  /// Returns the number of hosts that currently have targets.
  [[nodiscard]] std::size_t hosts() const noexcept { return targets_of_.size(); }

 private:
  using facts = std::vector<std::pair<std::string_view, server_event::fact>>;

  void tell(log::level level, std::string_view name, std::string text, facts parts) const;

  server_event_sink to_;
  /// Logs an event with the fields `facts`, but at most ten lines a second. The event named
  /// `others` reports the number of lines that were left out.
  void tell_limited(log::limited_log& by, log::level level, std::string_view name,
                    std::string_view others, const std::string& text, const facts& parts) const;

  log::limited_log refusal_lines_{"more connections were refused"};
  log::limited_log failed_start_lines_{"more targets were not started"};
  std::map<tcp::job_name, std::size_t> targets_of_; ///< number of targets of each job, samplers
                                                    ///< included
  std::uint64_t started_ = 0;
  std::uint64_t not_started_ = 0;
  std::array<std::uint64_t, tcp::refusal_causes> refused_{};
};

} // namespace farcall
