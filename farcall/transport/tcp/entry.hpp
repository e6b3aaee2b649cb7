// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

#include <string_view>

namespace farcall::tcp {

/// Scheme of the TCP transport, by which cards and control messages name it.
inline constexpr std::string_view scheme = "tcp";

/// Returns the row of the table of transports for nodes that servers start on other machines.
[[nodiscard]] transport_entry entry();

} // namespace farcall::tcp
