// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace farcall::veo {

/// True if the environment variable VEO_LOG_DEBUG is set, to any value.
[[nodiscard]] bool logs_debug() noexcept;

/// Writes a line to standard output, where NEC's library writes its debug lines, too. Does nothing
/// unless logs_debug() is true.
void debug_log(std::string_view text) noexcept;

} // namespace farcall::veo
