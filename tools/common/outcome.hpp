// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace farcall::tool {

/// Exception for an invalid command line or setting. The command ends with exit code 2, and has not
/// started anything.
struct usage_problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exception for a request that was valid but has failed. The command ends with exit code 1.
struct failed_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns "cannot start NAME: …" for an exec that failed with errno `reason`.
[[nodiscard]] std::string text_of_failed_exec(const std::string& program, int reason);

/// Writes to standard output and flushes. Throws failed_run if the disk is full or the output is
/// closed.
void print(const std::string& text);

} // namespace farcall::tool
