// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <string_view>

namespace farcall::log {

enum class level { error, warning, info, debug };

/// True if lines of level `l` are written. FARCALL_LOG=error|warning|info|debug sets the least
/// severe level that is written; the default is warning.
[[nodiscard]] bool enabled(level l) noexcept;

/// Writes one line to standard error, by one write() call, so that lines of several nodes do not
/// mix. Must not be called between reserve and commit of a message.
void write(level l, std::string_view text) noexcept;

inline void error(std::string_view text) noexcept { write(level::error, text); }
inline void warning(std::string_view text) noexcept { write(level::warning, text); }
inline void info(std::string_view text) noexcept { write(level::info, text); }
inline void debug(std::string_view text) noexcept { write(level::debug, text); }

} // namespace farcall::log
