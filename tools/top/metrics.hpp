// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "node_rates.hpp"

#include <functional>
#include <string>

namespace farcall::tool {

/// Returns all counters of the sample in Prometheus' text format, version 0.0.4.
[[nodiscard]] std::string metrics_text(const job_sample& sample);

/// Serves metrics at http://`address`/metrics until SIGINT or SIGTERM arrives. For each request,
/// the text of the reply is the result of `text()`. `text` is called on another thread, one call at
/// a time. `address` is host:port, and port 0 means any free port. When the server listens,
/// `listening` is called with the server's address. Only loopback addresses are accepted, because
/// the server does not authenticate its clients (http_server). Throws usage_problem for other
/// addresses, and error if the server cannot listen.
void serve_metrics(const std::string& address, const std::function<std::string()>& text,
                   const std::function<void(const std::string&)>& listening);

} // namespace farcall::tool
