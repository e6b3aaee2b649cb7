#pragma once

#include "node_rates.hpp"

#include <functional>
#include <string>

namespace farcall::tool {

/// All counts of the sample in Prometheus' text format, version 0.0.4.
[[nodiscard]] std::string metrics_text(const job_sample& sample);

/// Answers HTTP GET /metrics at `address` (host:port; port 0: any that is free) with what `text`
/// returns then, which is called on a thread of its own, one call at a time, until SIGINT or
/// SIGTERM. `listening(address)` is called once it does. Loopback only: nobody is asked who they
/// are (http_server). Throws usage_problem for another address, and error where it cannot listen.
void serve_metrics(const std::string& address, const std::function<std::string()>& text,
                   const std::function<void(const std::string&)>& listening);

} // namespace farcall::tool
