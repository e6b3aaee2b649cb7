#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/log.hpp>

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::log {

/// For lines that others can cause as often as they like: ten a second at most, so that a flood of
/// causes is no flood of lines. Any thread.
class limited_log {
 public:
  static constexpr std::size_t most_lines = 10;
  static constexpr std::chrono::seconds interval{1};

  /// `what` names the lines that are left out: "17 <what>".
  explicit limited_log(std::string what) : what_(std::move(what)) {}

  void error(std::string_view line) { write(level::error, line); }
  void warning(std::string_view line) { write(level::warning, line); }
  void info(std::string_view line) { write(level::info, line); }

  /// Lines that would be written at that time: the line, behind how many others were left out in
  /// the interval before; nothing once there were enough.
  [[nodiscard]] std::vector<std::string> admitted(std::string_view line, time_point now);

 private:
  void write(level of, std::string_view line);

  std::string what_;
  std::mutex mutex_;
  time_point since_{};
  std::size_t lines_ = 0; ///< since then, left out ones included
};

} // namespace farcall::log
