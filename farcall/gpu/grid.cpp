// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/grid.hpp>

namespace farcall::detail {

constinit thread_local grid_place current_place{};

} // namespace farcall::detail
