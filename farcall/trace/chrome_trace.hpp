// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/trace/timeline.hpp>
#include <farcall/trace/timeline_view.hpp>

#include <cstdio>
#include <functional>
#include <string>

namespace farcall::trace {

/// Writes the timeline in the trace event format, which chrome://tracing, Perfetto and Speedscope
/// read. Each node is a process, each thread a track, and arrows lead from calls to handlers and
/// back. `name_of_node` returns the name to show for a node. Returns false, with errno, if writing
/// fails.
[[nodiscard]] bool write_chrome_trace(std::FILE* to, const timeline& from, const host_clock& clock,
                                      const std::function<std::string(node_id)>& name_of_node);

} // namespace farcall::trace
