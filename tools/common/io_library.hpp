#pragma once

#include <string>

namespace farcall::tool {

/// The file of libfarcall-io.so that was installed, or built, with this command. Throws failed_run
/// where there is none.
[[nodiscard]] std::string find_io_library();

/// Has programs that this process starts from now on load it. While nothing else uses the
/// environment. Throws failed_run.
void preload_io_library();

} // namespace farcall::tool
