#pragma once

#include <stdexcept>
#include <string>

namespace farcall::tool {

/// The command line or a setting asks for something that cannot be: exit code 2, and nothing was
/// started.
struct usage_problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What was asked for is possible, but it went wrong: exit code 1.
struct failed_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Why a program could not be executed, where errno was `reason`: "cannot start NAME: ...".
[[nodiscard]] std::string text_of_failed_exec(const std::string& program, int reason);

/// Writes to standard output and flushes; a full disk or closed output is a failed_run.
void print(const std::string& text);

} // namespace farcall::tool
