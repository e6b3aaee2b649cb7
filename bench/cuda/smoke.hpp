#pragma once

#include "options.hpp"

namespace farcall::bench {

/// A few calls of each kind with their results checked. Throws, or returns 0.
int smoke(const options& o);

} // namespace farcall::bench
