#pragma once

#include <tools/common/http_server.hpp>

#include <farcall/transport/tcp/server.hpp>

#include <functional>
#include <optional>
#include <string>

namespace farcall::tool {

/// The counts of a server in Prometheus' text format.
[[nodiscard]] std::string server_metrics(const server_status& status);

/// One line about it for people: "2 targets of 1 host".
[[nodiscard]] std::string server_summary(const server_status& status);

/// The pages of `farcall serve --status`. `ask` tells the server's status, and nothing where it
/// does not reply: then all pages are 503. /livez is 200 otherwise, /readyz where new targets are
/// started, and /metrics has the counts.
[[nodiscard]] http_server::pages
server_pages(const std::function<std::optional<server_status>()>& ask);

} // namespace farcall::tool
