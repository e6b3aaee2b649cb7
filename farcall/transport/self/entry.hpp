// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::self {

inline constexpr const char* scheme = "self";

/// Returns the table row of the transport by which a node calls itself.
[[nodiscard]] transport_entry entry();

} // namespace farcall::self
