// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

namespace farcall::tool {

/// Checks a profile. Throws std::invalid_argument if the profile refers to a frame, stack or thread
/// that does not exist, if an activity is undefined, or if a stack does not come after its caller.
/// Every output format calls this function first.
void check(const profile& seen);

} // namespace farcall::tool
