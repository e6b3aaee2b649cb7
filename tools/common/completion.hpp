// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.hpp"

#include <cstdint>
#include <string>

namespace farcall::tool {

enum class shell : std::uint8_t { bash, zsh, fish };

/// Returns the part of a completion script that describes a command and all commands below it.
/// Internal commands and options are left out.
[[nodiscard]] std::string completion_rows(const command_path& path, shell s);

/// Returns a script with which a shell completes the command lines of a program. `rows` is the
/// result of completion_rows(), also of other programs that implement commands of this one.
[[nodiscard]] std::string completion_script(const std::string& program, shell s,
                                            const std::string& rows);

} // namespace farcall::tool
