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

/// Something that happened at a server, for its log: a line for people, and the same in parts.
/// Nothing in it can break a line or a terminal, whatever peers have sent.
struct server_event {
  using fact = std::variant<std::string, std::int64_t>;

  log::level level{};
  std::string_view name; ///< such as "target_started"
  std::string text;
  std::vector<std::pair<std::string_view, fact>> facts; ///< such as "pid"
};

/// Takes the events of a server, on its reactor's thread; must not block, nor throw.
using server_event_sink = std::function<void(const server_event&)>;

/// Who has targets at a server: one host of one job.
struct server_client {
  tcp::job_name job{};
  std::string address; ///< as text, with its port
  std::string name;    ///< that it has proved; empty where its key has none
};

/// What happens at a server: makes the lines of its log, and counts. On the reactor's thread.
class server_events {
 public:
  /// Without a sink the lines go to the log of the process.
  explicit server_events(server_event_sink to);

  /// A target of that client runs from now on; with its first one, the client has come.
  void target_started(const server_client& client, node_id node, pid_t pid, bool is_sampler);
  void target_not_started(const server_client& client, node_id node, const std::string& why);
  /// With its last one, the client has left.
  void target_ended(const server_client& client, node_id node, pid_t pid, const std::string& how);
  /// It can no longer be reached; its targets end.
  void host_lost(const server_client& client, const std::string& why);
  /// Ten lines a second at most; all are counted.
  void refused(const std::string& address, tcp::refusal_cause cause, const std::string& why);
  /// Keys and certificates were read again; so many targets of revoked clients end.
  void reloaded(std::size_t ended);
  /// They were to be, and cannot be used.
  void not_reloaded(const std::string& why);
  void draining(std::size_t targets);
  void ending(std::size_t targets);

  [[nodiscard]] std::uint64_t targets_started() const noexcept { return started_; }
  [[nodiscard]] std::uint64_t targets_not_started() const noexcept { return not_started_; }
  [[nodiscard]] const std::array<std::uint64_t, tcp::refusal_causes>& refusals() const noexcept {
    return refused_;
  }
  /// That have targets now.
  [[nodiscard]] std::size_t hosts() const noexcept { return targets_of_.size(); }

 private:
  using facts = std::vector<std::pair<std::string_view, server_event::fact>>;

  void tell(log::level level, std::string_view name, std::string text, facts parts) const;

  server_event_sink to_;
  /// Ten lines a second at most, each with these facts; `others` names the event for what is left
  /// out.
  void tell_limited(log::limited_log& by, log::level level, std::string_view name,
                    std::string_view others, const std::string& text, const facts& parts) const;

  log::limited_log refusal_lines_{"more connections were refused"};
  log::limited_log failed_start_lines_{"more targets were not started"};
  std::map<tcp::job_name, std::size_t> targets_of_; ///< by job, samplers included
  std::uint64_t started_ = 0;
  std::uint64_t not_started_ = 0;
  std::array<std::uint64_t, tcp::refusal_causes> refused_{};
};

} // namespace farcall
