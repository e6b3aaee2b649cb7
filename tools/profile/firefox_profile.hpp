#pragma once

#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// A file for https://profiler.firefox.com: its "processed profile" format in version 55, each
/// thread with its process, and what it did as the category of its frames. Throws
/// std::invalid_argument for a damaged profile.
[[nodiscard]] std::string firefox_profile_json(const profile& seen);

} // namespace farcall::tool
