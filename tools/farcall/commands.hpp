// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/command_line.hpp>

#include <string>
#include <vector>

namespace farcall::tool {

/// Functions that return the commands of `farcall`. The source file of a command has the command's
/// name, for instance info.cpp.
[[nodiscard]] command command_info();
[[nodiscard]] command command_run();
[[nodiscard]] command command_serve();
/// Returns the command `keygen`, which makes the keys that `serve` reads. It is defined in
/// serve.cpp too.
[[nodiscard]] command command_keygen();
[[nodiscard]] command command_bench();
[[nodiscard]] command command_top();
[[nodiscard]] command command_functions();
[[nodiscard]] command command_process_group();
[[nodiscard]] command command_prof();
/// The command of farcall-prof, which `farcall prof` starts.
[[nodiscard]] command command_of_profiler();

/// Returns the command line of "farcall-prof sampler", which `serve` starts if a `farcall prof` on
/// another machine asks for samples. Returns an empty list if this program was built without the
/// profiler.
[[nodiscard]] std::vector<std::string> sampler_of_servers();

} // namespace farcall::tool
