// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scale.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Measures jobs of growing size. Each job is made by a new process, so that figures are free of
/// leftovers from earlier jobs: the benchmark starts this program again with `job_argument`,
/// directly or by a launcher, and that process prints its figures, line by line.
namespace farcall::tool {

/// Prefix of the lines for the benchmark; other lines are someone else's output.
inline constexpr std::string_view job_line = "farcall-scale: ";
inline constexpr std::string_view job_argument = "--scale-job";
/// Limit of targets.
inline constexpr std::size_t max_nodes = 4096;

/// Parses numbers of targets, such as "2,4,8". Throws usage_problem if a number is out of range.
[[nodiscard]] std::vector<std::size_t> parse_sizes(const std::string& text);

/// Makes the jobs, and prints their figures.
int run_scale_of_nodes(const scale_options& options);

/// Main function of the process that makes a job. `argv` is job_argument, the number of targets,
/// "children" or "launched", "all", "quick" or "start", and the seconds for first contact. Returns
/// the exit status.
int measure_scale_job(int argc, char** argv);

} // namespace farcall::tool
