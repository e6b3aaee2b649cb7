// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace farcall::tool {

/// Variables that `farcall run --hosts` exports to remote targets, each as "NAME=VALUE". They are
/// passed through the standard input of `farcall serve`, after the key, because every user of a
/// machine can read command lines.

/// Parses a list such as "NAME,NAME=VALUE". A name without a value takes its value from this
/// process's environment, which also allows values with commas. Throws usage_problem that names the
/// variable.
[[nodiscard]] std::vector<std::string> parse_exports(const std::string& text);

/// Returns the variables in the form that read_exports() reads.
[[nodiscard]] std::string encode_exports(const std::vector<std::string>& variables);

/// Reads the variables from a descriptor. Blocks until all have arrived. Throws failed_run if the
/// descriptor ends early, or if the data is invalid.
[[nodiscard]] std::vector<std::string> read_exports(int from);

/// Sets the variables in the environment of this process, which must have one thread. Throws
/// failed_run.
void set_exports(const std::vector<std::string>& variables);

} // namespace farcall::tool
