#pragma once

#include <farcall/base/log.hpp>

#include <string_view>

namespace farcall::log {

/// Writes a line in place of the log, which writes it to standard error. May be called by any
/// thread at any time; the text has no line ends and no control characters.
using writer = void (*)(level which, std::string_view text) noexcept;

/// "error", "warning", "info" or "debug".
[[nodiscard]] std::string_view name_of(level which) noexcept;

/// For all lines of the process from now on; null: the log writes again. Any thread.
void set_writer(writer w) noexcept;

} // namespace farcall::log
