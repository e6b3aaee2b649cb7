// SPDX-License-Identifier: Apache-2.0
#include "server_pages.hpp"

#include <tools/common/metric_family.hpp>

#include <farcall/base/text.hpp>
#include <farcall/transport/tcp/refusals.hpp>

#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

std::string counted(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

http_server::page page_of(const std::function<std::optional<server_status>()>& ask,
                          std::function<http_reply(const server_status&)> reply) {
  return [ask, reply = std::move(reply)] {
    const std::optional<server_status> status = ask();
    return status ? reply(*status) : http_reply{503, "the server does not reply\n"};
  };
}

} // namespace

std::string server_metrics(const server_status& status) {
  std::string text;
  const auto add = [&text](std::string name, std::string_view type, std::string_view help,
                           std::uint64_t value) {
    metric_family one(std::move(name), type, help);
    one.add("", static_cast<double>(value));
    text += one.text();
  };
  add("farcall_server_targets", "gauge", "Targets that run, samplers included.", status.targets);
  add("farcall_server_hosts", "gauge", "Hosts that have targets here.", status.hosts);
  add("farcall_server_draining", "gauge", "1 where no new targets are started, else 0.",
      status.is_draining ? 1 : 0);
  add("farcall_server_unproved_connections", "gauge",
      "Connections that have not said, or not proved, what they want.", status.unproved);
  add("farcall_server_targets_started_total", "counter", "Targets started.",
      status.targets_started);
  add("farcall_server_targets_not_started_total", "counter",
      "Targets that could not be started, or that a host may not have.",
      status.targets_not_started);
  add("farcall_server_connections_total", "counter", "Connections that have come.",
      status.connections);
  metric_family refused("farcall_server_refused_connections_total", "counter",
                        "Connections refused, by cause.");
  for (std::size_t i = 0; i < tcp::refusal_causes; ++i) {
    refused.add(fmt::format("cause={}", quoted_text(tcp::refusal_cause_names.at(i))),
                static_cast<double>(status.refused.at(i)));
  }
  return text + refused.text();
}

std::string server_summary(const server_status& status) {
  return fmt::format("{}{} of {}", status.is_draining ? "draining, " : "",
                     counted(status.targets, "target"), counted(status.hosts, "host"));
}

http_server::pages server_pages(const std::function<std::optional<server_status>()>& ask) {
  http_server::pages pages;
  pages["/livez"] = page_of(ask, [](const server_status&) { return http_reply{200, "alive\n"}; });
  pages["/readyz"] = page_of(ask, [](const server_status& s) {
    return s.is_draining ? http_reply{503, "draining\n"} : http_reply{200, "ready\n"};
  });
  pages["/metrics"] = page_of(ask, [](const server_status& s) {
    return http_reply{200, server_metrics(s), std::string(metrics_type)};
  });
  return pages;
}

} // namespace farcall::tool
