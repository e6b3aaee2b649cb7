#pragma once

#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// A file for https://www.speedscope.app: a "sampled" profile for each thread, with the seconds
/// that its samples stand for as weights; with samples as weights where the rate is not known.
/// Equal stacks one after another are one sample. Throws std::invalid_argument for a damaged
/// profile.
[[nodiscard]] std::string speedscope_json(const profile& seen);

} // namespace farcall::tool
