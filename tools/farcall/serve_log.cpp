// SPDX-License-Identifier: Apache-2.0
#include "serve_log.hpp"

#include <tools/common/json.hpp>

#include <farcall/base/log_writer.hpp>
#include <farcall/base/settings.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <string_view>
#include <variant>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <poll.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

// Accesses are relaxed, because each value is used on its own, and no other data is published with
// it.
std::atomic<log_format> log_format_of_process{log_format::text};
std::atomic<std::uint64_t> lost_lines{0};

std::string utc_text(std::chrono::system_clock::time_point at) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(at);
  const auto second = std::chrono::floor<std::chrono::seconds>(ms);
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     (ms - second).count());
}

std::string json_log_line(const server_event& event, std::chrono::system_clock::time_point at) {
  json line{{"time", utc_text(at)},
            {"level", log::name_of(event.level)},
            {"event", event.name.empty() ? std::string_view("log") : event.name},
            {"text", event.text}};
  for (const auto& [key, value] : event.facts)
    line[key] = std::visit([](const auto& v) { return json(v); }, value);
  return line.dump();
}

/// Writes a line to standard error if this does not block. Otherwise drops the line and returns
/// false, because a process that reads the log and has stopped must not stop the server too.
bool try_write(const server_event& event) {
  pollfd log{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&log, 1, 0) == 0) return false;
  const std::string line = log_line(log_format_of_process.load(std::memory_order_relaxed), event,
                                    std::chrono::system_clock::now()) +
                           "\n";
  // The result is ignored, because an error of the log could only be reported in the log.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  return true;
}

void write_event(const server_event& event) noexcept {
  try {
    const std::uint64_t lost = lost_lines.exchange(0, std::memory_order_relaxed);
    const bool is_told =
        lost == 0 ||
        try_write({log::level::warning,
                   "lines_lost",
                   fmt::format("lines of this log that nobody read are lost: {}", lost),
                   {{"lines", static_cast<std::int64_t>(lost)}}});
    if (is_told && try_write(event)) return;
    lost_lines.fetch_add(is_told ? 1 : lost + 1, std::memory_order_relaxed);
  } catch (const std::exception&) {
    constexpr std::string_view message = "farcall: out of memory while logging\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  }
}

void write_logged_line(log::level level, std::string_view text) noexcept {
  try {
    write_event({level, "", std::string(text), {}});
  } catch (const std::exception&) {
    write_event({level, "", "", {}});
  }
}

} // namespace

std::string log_line(log_format format, const server_event& event,
                     std::chrono::system_clock::time_point at) {
  if (format == log_format::json) return json_log_line(event, at);
  return fmt::format("{} farcall[{}] {}: {}", utc_text(at), ::getpid(), log::name_of(event.level),
                     event.text);
}

server_event_sink write_log(log_format format, log::level least) {
  log_format_of_process.store(format, std::memory_order_relaxed);
  log::set_writer(write_logged_line);
  return [least](const server_event& event) {
    if (event.level <= least) write_event(event);
  };
}

log::level chosen_log_level(log::level otherwise) {
  if (!farcall::environment("FARCALL_LOG")) return otherwise;
  for (const log::level l : {log::level::debug, log::level::info, log::level::warning}) {
    if (log::enabled(l)) return l;
  }
  return log::level::error;
}

} // namespace farcall::tool
