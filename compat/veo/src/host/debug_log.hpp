#pragma once

#include <string_view>

namespace farcall::veo {

/// Whether VEO_LOG_DEBUG is set, to any value.
[[nodiscard]] bool logs_debug() noexcept;

/// A line on standard output, where NEC's library writes its own, if logs_debug().
void debug_log(std::string_view text) noexcept;

} // namespace farcall::veo
