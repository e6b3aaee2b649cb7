#pragma once

#include "profile.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// What a profile lacks, and what to do about it, in a sentence each: names of functions, where
/// half of the samples that compute have none, and callers, where half of them have none though
/// they were looked for by frame pointers. Of few samples nothing is said.
[[nodiscard]] std::vector<std::string> notes_on(const profile& seen, bool by_frame_pointers);

} // namespace farcall::tool
