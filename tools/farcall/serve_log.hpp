// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/log.hpp>
#include <farcall/server/server_events.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace farcall::tool {

enum class log_format : std::uint8_t { text, json };

/// Returns the text of a log line, without the newline. It has the time in UTC and the event. In
/// JSON it also has the facts of the event. An event without a name is a message that farcall has
/// logged in this process.
[[nodiscard]] std::string log_line(log_format format, const server_event& event,
                                   std::chrono::system_clock::time_point at);

/// From now on, writes the log of this process to standard error in this format. Returns a sink
/// that does the same for events of a server, from level `least` on. If standard error blocks,
/// lines are dropped, and their number is logged later. Must be called only once, before other
/// threads log.
[[nodiscard]] server_event_sink write_log(log_format format, log::level least);

/// Returns the log level that the variable FARCALL_LOG names. Returns `otherwise` if the variable
/// is not set.
[[nodiscard]] log::level chosen_log_level(log::level otherwise);

} // namespace farcall::tool
