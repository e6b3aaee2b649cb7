#pragma once

#include "profile.hpp"

namespace farcall::tool {

/// Throws std::invalid_argument when a number in the profile leads nowhere: a frame, stack or
/// thread that is not there, a stack that is no deeper than its caller, an activity that is none.
/// Every output format asks for this first.
void check(const profile& seen);

} // namespace farcall::tool
