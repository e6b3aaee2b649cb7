// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/http_server.hpp>

#include <farcall/server/server.hpp>

#include <functional>
#include <optional>
#include <string>

namespace farcall::tool {

/// Returns the counters of a server, in the text format of Prometheus.
[[nodiscard]] std::string server_metrics(const server_status& status);

/// Returns a line that tells users the state of the server, such as "2 targets of 1 host".
[[nodiscard]] std::string server_summary(const server_status& status);

/// Returns the pages that `farcall serve --status` serves. Each page calls `ask`, which returns the
/// server's status, or nothing if the server does not reply. Without a reply, all pages have the
/// HTTP status 503. With a reply, /livez has the status 200, and /readyz has 200 if the server
/// starts new targets. The page /metrics has the counters.
[[nodiscard]] http_server::pages
server_pages(const std::function<std::optional<server_status>()>& ask);

} // namespace farcall::tool
