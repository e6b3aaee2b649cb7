#pragma once

#include "scale.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Jobs with ever more nodes. Each is made by a process of its own, so that what an earlier one has
/// left behind is in no figure: the benchmark starts this program again with `job_argument`, by
/// itself or by a launcher, and that process prints what it measures, line by line.
namespace farcall::tool {

/// In front of what the process prints for the benchmark; the rest is somebody else's.
inline constexpr std::string_view job_line = "farcall-scale: ";
inline constexpr std::string_view job_argument = "--scale-job";
/// More targets than that are not tried.
inline constexpr std::size_t most_nodes = 4096;

/// "2,4,8": numbers of targets. Throws usage_problem for one that cannot be.
[[nodiscard]] std::vector<std::size_t> parse_sizes(const std::string& text);

/// Makes the jobs, and prints what they need.
int run_scale_of_nodes(const scale_options& options);

/// The process that makes a job: `argv` is job_argument, the number of targets, "children" or
/// "launched", "all", "quick" or "start", and the seconds for first contact. Returns the exit
/// status.
int measure_scale_job(int argc, char** argv);

} // namespace farcall::tool
