// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.hpp"

#include <string>

namespace farcall::tool {

/// Parses the command line and runs the command that it names. Returns the command's exit status if
/// the command returns. Returns 2 if the command line or a setting is invalid, and 1 if the command
/// throws any other exception. Messages are printed to standard error.
///
/// `version` is the text that --version prints. A message begins with the program's name and the
/// command's. Sets SIGCHLD to SIG_DFL, even if the program was started with another action.
///
/// A program with commands has two more commands: "help [COMMAND...]", which prints the text of
/// --help, and "completion SHELL" (see documents.hpp).
[[nodiscard]] int run_command_line(const command& program, const std::string& version, int argc,
                                   const char* const* argv);

} // namespace farcall::tool
