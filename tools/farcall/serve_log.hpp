#pragma once

#include <farcall/base/log.hpp>
#include <farcall/transport/tcp/server_events.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace farcall::tool {

enum class log_format : std::uint8_t { text, json };

/// A line of a server's log, without its end: when, in UTC, what, and where it is JSON the facts.
/// An event without a name is a line of the process's log.
[[nodiscard]] std::string log_line(log_format format, const server_event& event,
                                   std::chrono::system_clock::time_point at);

/// Has the log of this process written in that form, to standard error, from now on. Returns what
/// writes a server's events there, those of level `least` and above. Lines are lost, and counted,
/// while whoever reads them does not. Once in a process, before other threads log.
[[nodiscard]] server_event_sink write_log(log_format format, log::level least);

/// The level that FARCALL_LOG names; `otherwise` where it is not set.
[[nodiscard]] log::level chosen_log_level(log::level otherwise);

} // namespace farcall::tool
