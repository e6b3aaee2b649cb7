#pragma once

#include "profile.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// Names the lacks of a profile, and their remedies, in a sentence each: truncated stacks,
/// functions without names, if half of the samples that compute are in these, and missing callers,
/// if half of the samples lack callers by frame pointers. The last two are told of many samples
/// only.
[[nodiscard]] std::vector<std::string> notes_on(const profile& seen, bool by_frame_pointers);

} // namespace farcall::tool
