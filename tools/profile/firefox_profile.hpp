// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// Returns a file for https://profiler.firefox.com ("processed profile" format, version 55). The
/// name of a thread contains its process. The activity of a sample is the category of its frames.
/// Throws std::invalid_argument if the profile is damaged.
[[nodiscard]] std::string firefox_profile_json(const profile& seen);

} // namespace farcall::tool
