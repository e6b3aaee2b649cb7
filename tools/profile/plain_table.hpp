#pragma once

#include "profile.hpp"

#include <cstdio>

namespace farcall::tool {

/// The functions that took the most time: their samples, and those of what they call.
void write_plain_table(std::FILE* to, const profile& p);

} // namespace farcall::tool
