// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

namespace farcall::bench {

/// Makes a few calls of each kind and checks their results. Returns 0, or throws.
int smoke(const options& o);

} // namespace farcall::bench
