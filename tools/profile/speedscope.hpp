// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// Returns a file for https://www.speedscope.app with a "sampled" profile for each thread. A
/// sample's weight is the number of seconds that it represents; if the rate is unknown, samples are
/// counted. Consecutive samples with equal stacks are merged. Throws std::invalid_argument if the
/// profile is damaged.
[[nodiscard]] std::string speedscope_json(const profile& seen);

} // namespace farcall::tool
