#include <farcall/base/log.hpp>

#include <cstdlib>
#include <string>

#include <unistd.h>

namespace farcall::log {
namespace {

level threshold() noexcept {
  static const level chosen = [] {
    const char* text = std::getenv("FARCALL_LOG");
    const std::string_view name = text ? text : "";
    if (name == "error") return level::error;
    if (name == "info") return level::info;
    if (name == "debug") return level::debug;
    if (!name.empty() && name != "warning") {
      constexpr std::string_view message =
          "farcall: FARCALL_LOG is none of error, warning, info and debug; warning is taken\n";
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
    }
    return level::warning;
  }();
  return chosen;
}

constexpr std::string_view names[] = {"error", "warning", "info", "debug"};

} // namespace

bool enabled(level l) noexcept { return l <= threshold(); }

void write(level l, std::string_view text) noexcept {
  if (!enabled(l)) return;
  try {
    std::string line = "farcall[" + std::to_string(::getpid()) + "] ";
    line.append(names[static_cast<int>(l)]).append(": ").append(text).push_back('\n');
    // A log line that cannot be written has no better place to go.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::bad_alloc&) {
    constexpr std::string_view message = "farcall: out of memory while logging\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  }
}

} // namespace farcall::log
