#pragma once

#include <string>
#include <vector>

namespace farcall::tool {

/// Variables that `farcall run --hosts` exports to targets elsewhere, each "NAME=VALUE". They go
/// through the standard input of `farcall serve`, behind the key, since command lines can be read
/// by everybody on a machine.

/// Reads "NAME[,NAME=VALUE...]", where a name alone has the value that it has here. A value has no
/// comma in it; a name alone is for those that have. Throws usage_problem that names the variable.
[[nodiscard]] std::vector<std::string> parse_exports(const std::string& text);

/// As read_exports() reads them.
[[nodiscard]] std::string encode_exports(const std::vector<std::string>& variables);

/// Blocks until all have come. Throws failed_run where the descriptor ends before, or something
/// else comes.
[[nodiscard]] std::vector<std::string> read_exports(int from);

/// Puts them into the environment of this process, which has one thread. Throws failed_run.
void set_exports(const std::vector<std::string>& variables);

} // namespace farcall::tool
