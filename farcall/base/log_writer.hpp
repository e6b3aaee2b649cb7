// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/log.hpp>

#include <string_view>

namespace farcall::log {

/// Writes a line instead of the log, which would write it to standard error. Any thread may call it
/// at any time. The text has no line ends and no control characters.
using writer = void (*)(level which, std::string_view text) noexcept;

/// Returns the name of a level: "error", "warning", "info" or "debug".
[[nodiscard]] std::string_view name_of(level which) noexcept;

/// Sets the writer of all further lines of the process; null for standard error. Any thread.
void set_writer(writer w) noexcept;

} // namespace farcall::log
