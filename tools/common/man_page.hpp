// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.hpp"

#include <string>

namespace farcall::tool {

/// Returns the manual page of a command in the language of groff's macros "man". The page of a
/// command with subcommands describes these too; the page of a program only lists them. Internal
/// commands and options are left out.
[[nodiscard]] std::string man_page(const command_path& path, const std::string& version);

/// Returns the name of the file with a command's manual page, such as "farcall-run.1".
[[nodiscard]] std::string man_page_file(const command_path& path);

} // namespace farcall::tool
