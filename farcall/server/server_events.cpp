// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/text.hpp>
#include <farcall/server/server_events.hpp>

#include <cstddef>
#include <utility>

namespace farcall {
namespace {

/// Returns a client's name and address, such as "ada at 192.0.2.1:4000"; the address alone if the
/// client has no name.
std::string client_text(const server_client& client) {
  return client.name.empty() ? client.address : client.name + " at " + client.address;
}

std::vector<std::pair<std::string_view, server_event::fact>> facts_of(const server_client& client) {
  std::vector<std::pair<std::string_view, server_event::fact>> facts{{"address", client.address}};
  if (!client.name.empty()) facts.emplace_back("client", client.name);
  facts.emplace_back("job", hexadecimal(client.job));
  return facts;
}

std::string count_text(std::size_t targets) {
  return std::to_string(targets) + (targets == 1 ? " target" : " targets");
}

} // namespace

server_events::server_events(server_event_sink to) : to_(std::move(to)) {
  if (to_) return;
  to_ = [](const server_event& e) { log::write(e.level, e.text); };
}

void server_events::tell(log::level level, std::string_view name, std::string text,
                         facts parts) const {
  for (auto& [key, value] : parts) {
    if (std::string* const words = std::get_if<std::string>(&value)) *words = valid_text(*words);
  }
  to_({level, name, valid_text(text), std::move(parts)});
}

void server_events::target_started(const server_client& client, node_id node, pid_t pid,
                                   bool is_sampler) {
  ++started_;
  facts parts = facts_of(client);
  if (++targets_of_[client.job] == 1) {
    tell(log::level::info, "host_connected",
         "host " + client_text(client) + " came, with job " + hexadecimal(client.job), parts);
  }
  parts.emplace_back("node", node);
  parts.emplace_back("pid", pid);
  tell(log::level::info, is_sampler ? "sampler_started" : "target_started",
       (is_sampler ? "sampler " : "target ") + std::to_string(pid) + " started for " +
           client_text(client),
       std::move(parts));
}

void server_events::target_not_started(const server_client& client, node_id node,
                                       const std::string& why) {
  ++not_started_;
  facts parts = facts_of(client);
  parts.emplace_back("node", node);
  parts.emplace_back("reason", why);
  tell_limited(failed_start_lines_, log::level::error, "target_not_started", "targets_not_started",
               "no target for host " + client_text(client) + ": " + why, parts);
}

void server_events::tell_limited(log::limited_log& by, log::level level, std::string_view name,
                                 std::string_view others, const std::string& text,
                                 const facts& parts) const {
  for (std::string& line : by.admitted(text, clock::now())) {
    if (line == text) {
      tell(level, name, std::move(line), parts);
    } else {
      tell(log::level::warning, others, std::move(line), {});
    }
  }
}

void server_events::target_ended(const server_client& client, node_id node, pid_t pid,
                                 const std::string& how) {
  facts parts = facts_of(client);
  facts of_target = parts;
  of_target.emplace_back("node", node);
  of_target.emplace_back("pid", pid);
  of_target.emplace_back("reason", how);
  tell(log::level::info, "target_ended",
       "target " + std::to_string(pid) + " of " + client_text(client) + " " + how,
       std::move(of_target));
  const auto at = targets_of_.find(client.job);
  if (at == targets_of_.end() || --at->second != 0) return;
  targets_of_.erase(at);
  tell(log::level::info, "host_disconnected",
       "host " + client_text(client) + " has no target here any more", std::move(parts));
}

void server_events::host_lost(const server_client& client, const std::string& why) {
  facts parts = facts_of(client);
  parts.emplace_back("reason", why);
  tell(log::level::warning, "host_lost", "host " + client_text(client) + ": " + why,
       std::move(parts));
}

void server_events::refused(const std::string& address, tcp::refusal_cause cause,
                            const std::string& why) {
  const auto at = static_cast<std::size_t>(cause);
  ++refused_.at(at);
  tell_limited(refusal_lines_, log::level::warning, "connection_refused", "connections_refused",
               "connection from " + address + " refused: " + why,
               {{"address", address},
                {"cause", std::string(tcp::refusal_cause_names.at(at))},
                {"reason", why}});
}

void server_events::reloaded(std::size_t ended) {
  tell(log::level::info, "reloaded",
       "keys and certificates were read again; " + count_text(ended) + " of revoked clients ended",
       {{"targets", static_cast<std::int64_t>(ended)}});
}

void server_events::not_reloaded(const std::string& why) {
  tell(log::level::error, "not_reloaded", "keys and certificates stay as they are: " + why,
       {{"reason", why}});
}

void server_events::draining(std::size_t targets) {
  tell(log::level::info, "draining",
       "draining: no new targets are started; " + count_text(targets) + " left",
       {{"targets", static_cast<std::int64_t>(targets)}});
}

void server_events::ending(std::size_t targets) {
  tell(log::level::info, "ending",
       targets == 0 ? "the server ends" : "the server ends, and with it " + count_text(targets),
       {{"targets", static_cast<std::int64_t>(targets)}});
}

} // namespace farcall
