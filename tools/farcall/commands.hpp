#pragma once

#include <tools/common/command_line.hpp>

namespace farcall::tool {

/// The commands of `farcall`, each in a file of its own name.
[[nodiscard]] command command_info();
[[nodiscard]] command command_run();
[[nodiscard]] command command_serve();
[[nodiscard]] command command_keygen(); ///< with `serve`, which needs the keys
[[nodiscard]] command command_bench();
[[nodiscard]] command command_top();
[[nodiscard]] command command_functions();
[[nodiscard]] command command_process_group();
[[nodiscard]] command command_prof();

} // namespace farcall::tool
