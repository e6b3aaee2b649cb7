#pragma once

#include <string>

namespace farcall::veo {

/// Why the loader could not load the file without harm, or nothing: one that ends before what its
/// headers tell of is a SIGBUS there. What else may be wrong the loader says itself.
[[nodiscard]] std::string damage_of_library(const char* file);

} // namespace farcall::veo
