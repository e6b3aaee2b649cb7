// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.hpp"

#include <string>
#include <vector>

namespace farcall::tool {

/// First word of the command line with which the build, or another program, asks for documents.
inline constexpr const char* documents_option = "--documents";

/// Returns a copy of a program with commands that print its documents: "help [COMMAND...]" prints
/// the text of --help, and "completion SHELL" a completion script. A program without commands gets
/// none.
///
/// A program whose name has several words, such as "farcall bench", implements a command of another
/// program, which asks it for its parts of the documents.
[[nodiscard]] command with_documents(const command& program, const std::string& version);

/// Writes the manual pages into a folder ("man FOLDER"), or prints the rows of a completion script
/// ("bash", "zsh" or "fish"). Throws usage_problem and failed_run.
void write_documents(const command& program, const std::string& version,
                     const std::vector<std::string>& words);

/// Prints the text of --help to standard output. Its width is the terminal's, or 80 columns if
/// standard output is no terminal.
void print_help(const command_path& path);

} // namespace farcall::tool
