// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace farcall::tool {

/// Returns the path of this command.
[[nodiscard]] std::string this_program();

/// Runs a program that implements a part of this command and is in the same folder, and returns its
/// output. Returns an empty text if the program is not installed. Throws failed_run.
[[nodiscard]] std::string output_of_part(const std::string& name,
                                         const std::vector<std::string>& words);

/// Returns the path of farcall-bench, in the folder of this command. Throws failed_run that says
/// where it was expected and how to get it.
[[nodiscard]] std::string bench_program();

/// Returns `program`, or farcall-bench if `program` is this command, which has no benchmarks
/// itself.
[[nodiscard]] std::string served_for_benchmarks(const std::string& program);

} // namespace farcall::tool
