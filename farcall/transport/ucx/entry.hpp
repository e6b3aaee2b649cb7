#pragma once

#include <farcall/transport/transport_entry.hpp>

namespace farcall::ucx {

/// The row: "ucx", "ucx:4".
[[nodiscard]] transport_entry entry();

} // namespace farcall::ucx
