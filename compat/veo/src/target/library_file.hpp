#pragma once

#include <string>

namespace farcall::veo {

/// Returns a text about a defect of a library file that the loader would not report, or an empty
/// text. There are two such defects. A file that is shorter than its headers say raises SIGBUS in
/// the loader, and the loader skips a file for another processor as if it did not exist.
[[nodiscard]] std::string damage_of_library(const char* file);

} // namespace farcall::veo
