#pragma once

#include <string>

namespace farcall::veo {

/// Says why the loader could not load the file without harm, or would say that there is none: one
/// that ends before what its headers tell of is a SIGBUS there, and one for another processor it
/// passes over. Empty for all else, of which the loader tells itself.
[[nodiscard]] std::string damage_of_library(const char* file);

} // namespace farcall::veo
