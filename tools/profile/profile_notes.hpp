// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// Returns a sentence for each gap of a profile, with a remedy. Truncated stacks are always
/// reported. Two other gaps are reported if at least 20 samples compute. The first is a module
/// whose functions have no names, if at least half of the computing samples are in the module. The
/// second is missing callers, if stacks are found by frame pointers and at least half of the
/// computing samples have no caller.
[[nodiscard]] std::vector<std::string> notes_on(const profile& seen, bool by_frame_pointers);

} // namespace farcall::tool
