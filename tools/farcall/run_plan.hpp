// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// Actions of `farcall run`, as its options request: the program to execute, its command line, and
/// the targets of its job.
struct run_plan {
  std::string program;            ///< path to execute
  std::vector<std::string> words; ///< the program's argv
  std::string targets;            ///< targets of the job; empty if a launcher forms the job
  /// True if the variable FARCALL_TARGETS has to be set for the program. The default is not passed
  /// on, because the program may be a launcher, whose processes form the job.
  bool passes_targets_on = true;
};

/// Makes the plan of a run, and checks everything that can be checked before the program starts. At
/// most one option may name the targets. Without such an option, the variable FARCALL_TARGETS names
/// them. If that variable is unset, too, its default is used, unless a launcher has started the
/// processes, because these form the job. Only a job of equals may have a single node. The program
/// must be an executable file. Throws usage_problem or farcall::setting_error, with a remedy.
[[nodiscard]] run_plan make_run_plan(std::optional<std::size_t> processes,
                                     std::optional<std::string> targets,
                                     const std::vector<std::string>& command,
                                     bool are_equals = false);

/// True if farcall is linked into a program, as a static or a shared library. Also true if the file
/// cannot be read.
[[nodiscard]] bool contains_farcall(const std::string& program);

/// Returns the path of the program that a shell would execute for `name`. A name with a slash is
/// the path itself. Another name is searched in the folders of `path`. Throws usage_problem if no
/// such program is found.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& path);

} // namespace farcall::tool
