// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace farcall::tool {

/// Returns the path of the libfarcall-io.so that was installed or built with this command. Throws
/// failed_run if there is no such file.
[[nodiscard]] std::string find_io_library();

/// Sets LD_PRELOAD, so that programs that this process starts from now on load libfarcall-io.so.
/// Other threads must not use the environment during the call. Throws failed_run.
void preload_io_library();

} // namespace farcall::tool
