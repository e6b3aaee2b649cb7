// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/base/log_wording.hpp>
#include <farcall/base/log_writer.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/text.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>
#include <string>

#include <unistd.h>

namespace farcall::log {
namespace {

constexpr std::string_view names[] = {"error", "warning", "info", "debug"};

// Relaxed, because the pointers refer to functions and to no other memory.
std::atomic<wording> chosen_wording{nullptr};
std::atomic<writer> chosen_writer{nullptr};

level chosen_level() {
  const setting& s = settings::row("log");
  const std::string variable = settings::variable_of(s);
  const std::string value = environment(variable.c_str()).value_or(settings::default_of(s));
  const auto* const found = std::find(std::begin(names), std::end(names), value);
  if (found != std::end(names)) return static_cast<level>(found - std::begin(names));
  const std::string message = "farcall: " + variable + " is \"" + value + "\"; give " +
                              settings::accepted_by(s) + "; warning is taken\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  return level::warning;
}

level threshold() noexcept {
  static const level chosen = [] {
    try {
      return chosen_level();
    } catch (const std::bad_alloc&) {
      return level::warning;
    }
  }();
  return chosen;
}

} // namespace

std::string_view name_of(level which) noexcept { return names[static_cast<int>(which)]; }

void set_wording(wording w) noexcept { chosen_wording.store(w, std::memory_order_relaxed); }

void set_writer(writer w) noexcept { chosen_writer.store(w, std::memory_order_relaxed); }

bool enabled(level l) noexcept { return l <= threshold(); }

void write(level l, std::string_view text) noexcept {
  if (!enabled(l)) return;
  try {
    const wording say = chosen_wording.load(std::memory_order_relaxed);
    // Replace control characters, because peers choose parts of the text, and must not add lines or
    // control the terminal.
    const std::string shown = valid_text(say == nullptr ? std::string(text) : say(text));
    if (const writer instead = chosen_writer.load(std::memory_order_relaxed)) {
      instead(l, shown);
      return;
    }
    std::string line = "farcall[" + std::to_string(::getpid()) + "] ";
    line.append(name_of(l)).append(": ").append(shown).push_back('\n');
    // Ignore the error, because there is no better place to report that standard error cannot be
    // written.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::bad_alloc&) {
    constexpr std::string_view message = "farcall: out of memory while logging\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  }
}

} // namespace farcall::log
