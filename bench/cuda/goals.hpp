#pragma once

#include "report.hpp"

namespace farcall::bench {

/// Prints how the figures stand to what was aimed at, as far as both are there.
void print_goals(const report& out, bool is_gpu);

} // namespace farcall::bench
