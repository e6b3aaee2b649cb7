// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/log.hpp>

#include <concepts>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall::log {

/// Log for lines that peers can cause without limit: at most ten a second are written. Any thread.
class limited_log {
 public:
  static constexpr std::size_t max_lines = 10;
  static constexpr std::chrono::seconds interval{1};

  /// `what` names the omitted lines in the log, as in "17 <what>".
  explicit limited_log(std::string what) : what_(std::move(what)) {}

  void error(std::string_view line) { write(level::error, line); }
  void warning(std::string_view line) { write(level::warning, line); }
  void info(std::string_view line) { write(level::info, line); }

  /// Write the line that `make` returns. If there is no memory for it, write a line that says so.
  /// For functions that report a lack of memory.
  template <std::invocable F>
  void error(const F& make) noexcept {
    write_made(level::error, make);
  }
  template <std::invocable F>
  void warning(const F& make) noexcept {
    write_made(level::warning, make);
  }

  /// Returns the lines to write if `line` comes at time `now`. Returns nothing if the limit of this
  /// interval is reached, so that `line` is omitted. Otherwise returns `line`; if lines were
  /// omitted in the previous interval, a line with their number precedes it.
  [[nodiscard]] std::vector<std::string> admitted(std::string_view line, time_point now);

 private:
  void write(level of, std::string_view line);
  template <class F>
  void write_made(level of, const F& make) noexcept {
    try {
      write(of, make());
    } catch (const std::bad_alloc&) {
      log::write(of, "no memory for a line of the log");
    }
  }

  std::string what_;
  std::mutex mutex_;
  time_point since_{};
  std::size_t lines_ = 0; ///< number of lines since the interval's begin, including omitted ones
};

} // namespace farcall::log
