#pragma once

#include <farcall/trace/timeline.hpp>
#include <farcall/trace/timeline_view.hpp>

#include <cstdio>
#include <functional>
#include <string>

namespace farcall::trace {

/// Writes the timeline in the trace event format that chrome://tracing, Perfetto and Speedscope
/// read: a process for each node, a track for each thread, arrows from calls to handlers and back.
/// `name_of_node` gives what is shown for a node. False, with errno, when it cannot be written.
[[nodiscard]] bool write_chrome_trace(std::FILE* to, const timeline& from, const host_clock& clock,
                                      const std::function<std::string(node_id)>& name_of_node);

} // namespace farcall::trace
