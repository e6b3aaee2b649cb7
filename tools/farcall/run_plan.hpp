#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// What `farcall run` is about to do: which program, with which words, and the value of
/// FARCALL_TARGETS.
struct run_plan {
  std::string program;            ///< the file that will be executed
  std::vector<std::string> words; ///< what it sees as argv
  std::string targets;            ///< may be empty: then the variable stays unset
};

/// Checks everything that can be checked before the program starts: that options name the targets
/// in at most one way, and a file that is there and may be executed. Without such an option the
/// variable FARCALL_TARGETS counts, else its default; under a launcher, whose processes make the
/// job, there are no targets then. A job of equals may have one node. Throws usage_problem or
/// farcall::setting_error, saying what to do.
[[nodiscard]] run_plan make_run_plan(std::optional<std::size_t> processes,
                                     std::optional<std::string> targets,
                                     const std::vector<std::string>& command,
                                     bool are_equals = false);

/// The file that a shell would execute for `name`: itself when it has a slash, else the first one
/// on `path`. Throws usage_problem when there is none.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& path);

} // namespace farcall::tool
