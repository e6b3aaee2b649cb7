#pragma once

#include <string>

namespace farcall::tool {

/// The file of this command.
[[nodiscard]] std::string this_program();

/// The program that measures: farcall-bench in the folder of this one. Throws failed_run with where
/// it was looked for and how to get it.
[[nodiscard]] std::string bench_program();

/// `program`, unless it is this one: that has nothing to measure, so farcall-bench is served in its
/// place.
[[nodiscard]] std::string served_for_benchmarks(const std::string& program);

} // namespace farcall::tool
