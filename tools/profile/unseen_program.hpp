// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <sys/stat.h>

namespace farcall::tool {

/// Returns the reason why a profile of this program would lack its work, and a remedy. There are
/// two such kinds of programs. Some run as another user or group, so that the kernel ends the
/// sampling. Others, like srun, have another process start the program that does the work. Returns
/// an empty text for all other programs. `file` is the result of stat() for the program.
[[nodiscard]] std::string why_unseen(const std::string& program, const struct stat& file);

} // namespace farcall::tool
