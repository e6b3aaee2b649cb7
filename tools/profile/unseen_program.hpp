#pragma once

#include <string>

#include <sys/stat.h>

namespace farcall::tool {

/// Why the samples of a program will lack its work, and what to do: the kernel ends the sampling of
/// programs that run as another user, and programs such as srun have others start processes.
/// Returns an empty text if no such reason is known. `file`: what stat() says of the program.
[[nodiscard]] std::string why_unseen(const std::string& program, const struct stat& file);

} // namespace farcall::tool
