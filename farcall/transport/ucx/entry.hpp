// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::ucx {

/// Returns the table row of the transport with the URLs "ucx" and "ucx:4".
[[nodiscard]] transport_entry entry();

} // namespace farcall::ucx
